/** D13: the whole server as a process, from its ready line to its exit code. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Agent, request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

const root = path.resolve(import.meta.dirname, "../..");
let folder: string;
let child: ChildProcess;
const agent = new Agent({ connections: 32 });

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-serve-"));
  mkdirSync(path.join(folder, "models", "m"), { recursive: true });
  writeFileSync(
    path.join(folder, "models", "m", "rubato.yaml"),
    [
      "platform: rubato_emulated",
      "slo_ms: 500",
      "batch_max: 8",
      "emulated: {alpha_ms: 1, beta_ms: 20}",
      "inputs: {x: {datatype: FP32, shape: [-1, 1]}}",
      "outputs: {y: {datatype: FP32, shape: [-1, 1]}}",
    ].join("\n"),
  );
  writeFileSync(
    path.join(folder, "rubato.config.yaml"),
    "groups: {emulated: {kind: emulated, count: 2}}\ndrain_s: 3\nlog: {level: warn}\n",
  );
});
afterAll(async () => {
  await agent.close();
  rmSync(folder, { recursive: true, force: true });
});
afterEach(() => child.kill("SIGKILL"));

/** @returns the HTTP address, once the ready line has come. */
async function serve(...options: string[]): Promise<string> {
  const command = [path.join(root, "bin/rubato.js"), "serve", "--http", "0", "--grpc", "0", ...options];
  child = spawn(process.execPath, command, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  let errors = "";
  child.stderr!.on("data", (chunk) => {
    errors += chunk;
  });
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`exit ${code} before ready: ${errors}`)));
    child.stdout!.on("data", (chunk: Buffer) => {
      const ready = /rubato ready: (http:\S+)\s+gRPC \S+\s+models: m/.exec(chunk.toString());
      if (ready !== null) resolve(ready[1]!);
    });
  });
}

const exited = (): Promise<number | null> => new Promise((resolve) => child.once("exit", (code) => resolve(code)));

async function infer(url: string): Promise<number> {
  const body = JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, 1], data: [1] }] });
  const answer = await request(`${url}/v2/models/m/infer`, { method: "POST", body, dispatcher: agent });
  await answer.body.text();
  return answer.statusCode;
}

describe("shutdown (D13)", { retry: 2 }, () => {
  it("SIGTERM at 100/s: not ready at once, serves what still comes, no errors, exit 0 within drain and a run", async () => {
    const url = await serve();
    expect((await request(`${url}/v2/health/ready`, { dispatcher: agent })).statusCode).toBe(200);
    const calls: Promise<number>[] = [];
    const sender = setInterval(() => calls.push(infer(url)), 10);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const toldAt = performance.now();
    const exit = exited();
    child.kill("SIGTERM");
    await expect
      .poll(async () => (await request(`${url}/v2/health/ready`, { dispatcher: agent })).statusCode, {
        timeout: 500,
        interval: 5,
      })
      .toBe(503);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    clearInterval(sender);
    const statuses = await Promise.all(calls);
    expect(statuses.length).toBeGreaterThan(60);
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    expect(await exit).toBe(0);
    expect(performance.now() - toldAt).toBeLessThan(3000 + 3000);
  });

  it("Ctrl-C on an idle server: exit 0 at once; a second signal ends a draining one with 130", async () => {
    await serve();
    let exit = exited();
    child.kill("SIGINT");
    expect(await exit).toBe(0);
    const url = await serve();
    const sender = setInterval(() => infer(url).catch(() => {}), 20);
    exit = exited();
    child.kill("SIGTERM");
    // Within 0.3 s it would be the same signal, told twice (npm does that).
    await new Promise((resolve) => setTimeout(resolve, 1000));
    child.kill("SIGTERM");
    expect(await exit).toBe(130);
    clearInterval(sender);
  });

  it.each([
    ["SIGINT", 20, 1000],
    ["SIGTERM", 3, 2000],
  ] as const)(
    "%s while requests go on for ever, drain_s %i: all that were let in are answered, exit 0 soon",
    async (signal, drain, lame) => {
      const file = path.join(folder, "endless.yaml");
      writeFileSync(file, `groups: {emulated: {kind: emulated, count: 2}}\ndrain_s: ${drain}\nlog: {level: warn}\n`);
      const url = await serve("--config", file);
      const statuses: number[] = [];
      const sender = setInterval(
        () =>
          infer(url).then(
            (status) => statuses.push(status),
            () => {},
          ),
        10,
      );
      await new Promise((resolve) => setTimeout(resolve, 200));
      const toldAt = performance.now();
      const exit = exited();
      child.kill(signal);
      expect(await exit).toBe(0);
      clearInterval(sender);
      expect(performance.now() - toldAt).toBeLessThan(lame + 500 + 2500);
      // Those that came too late, or found no time any more, were told so.
      expect(new Set(statuses)).toEqual(new Set([200, 503]));
      expect(statuses.indexOf(503)).toBeGreaterThan(0.5 * (lame / 10));
    },
  );

  it("SIGTERM with the scheduler on threads: what was sent is answered, exit 0", async () => {
    const file = path.join(folder, "threads.yaml");
    writeFileSync(file, "groups: {emulated: {kind: emulated}}\ndrain_s: 3\nscheduler: {threads: 2}\n");
    const url = await serve("--config", file);
    const exit = exited();
    const calls = Array.from({ length: 40 }, () => infer(url));
    await calls[0];
    child.kill("SIGTERM");
    expect(new Set(await Promise.all(calls))).toEqual(new Set([200]));
    expect(await exit).toBe(0);
  });

  it("says with exit 2 what is wrong with the configuration, naming file, field, bound and value", async () => {
    const file = path.join(folder, "wrong.yaml");
    writeFileSync(file, "drain_s: -1\n");
    child = spawn(process.execPath, [path.join(root, "bin/rubato.js"), "serve", "--config", file], { cwd: folder });
    let errors = "";
    child.stderr!.on("data", (chunk) => {
      errors += chunk;
    });
    expect(await exited()).toBe(2);
    expect(errors).toMatch(/wrong\.yaml.*drain_s.*-1/s);
  });

  it("says with exit 1 and without a stack that the event log cannot be written", async () => {
    const ended = async (log: string): Promise<[number | null, string]> => {
      const file = path.join(folder, "log.yaml");
      writeFileSync(file, `groups: {emulated: {kind: emulated}}\nevent_log: {file: ${log}}`);
      const command = [path.join(root, "bin/rubato.js"), "serve", "--config", file, "--http", "0", "--grpc", "0"];
      child = spawn(process.execPath, command, { cwd: folder });
      let errors = "";
      child.stderr!.on("data", (chunk) => {
        errors += chunk;
      });
      return [await exited(), errors];
    };
    const missing = path.join(folder, "nowhere", "events.log");
    const [code, errors] = await ended(missing);
    expect(code, errors).toBe(1);
    expect(errors).toContain(`event_log.file must be a file that can be written; was ${missing} (ENOENT`);
    expect(errors).not.toMatch(/^ +at /m);
    if (!existsSync("/dev/full")) return;
    // It can be opened, not written: found out only when the scheduler starts, with workers there already.
    const full = await ended("/dev/full");
    expect(full[0], full[1]).toBe(1);
    expect(full[1]).toContain("rubato: the server cannot start: ENOSPC");
  });

  it.skipIf(process.platform !== "linux")("Ctrl-C while the workers start: exit 0, nothing failed", async () => {
    const command = [path.join(root, "bin/rubato.js"), "serve", "--http", "0", "--grpc", "0"];
    child = spawn(process.execPath, command, { cwd: folder });
    let errors = "";
    child.stderr!.on("data", (chunk) => {
      errors += chunk;
    });
    const exit = exited();
    const children = (): string => readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8");
    while (children() === "") await new Promise((resolve) => setTimeout(resolve, 5));
    // The worker process is there, and a moment later who listens for signals; that it is ready takes some 100 ms.
    await new Promise((resolve) => setTimeout(resolve, 50));
    child.kill("SIGINT");
    expect(await exit, errors).toBe(0);
    expect(errors).not.toContain("cannot start");
  });
});
