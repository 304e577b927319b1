/** Workers go with their server, and come back to it: what the operating system does to both. Linux. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Agent, request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

const root = path.resolve(import.meta.dirname, "../..");
let folder: string;
let child: ChildProcess;
const agent = new Agent({ connections: 1 });

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-survival-"));
  mkdirSync(path.join(folder, "models", "m"), { recursive: true });
  writeFileSync(
    path.join(folder, "models", "m", "rubato.yaml"),
    "platform: rubato_emulated\nslo_ms: 500\nemulated: {alpha_ms: 1, beta_ms: 2}\n" +
      "inputs: {x: {datatype: FP32, shape: [-1, 1]}}\noutputs: {y: {datatype: FP32, shape: [-1, 1]}}\n",
  );
  writeFileSync(path.join(folder, "rubato.config.yaml"), "groups: {emulated: {kind: emulated}}\nlog: {level: error}\n");
});
afterAll(async () => {
  await agent.destroy();
  rmSync(folder, { recursive: true, force: true });
});
afterEach(() => child.kill("SIGKILL"));

/** @param before shell text ahead of the server's command. */
function serve(before: string): Promise<string> {
  const command = `${before} exec "$0" "$1" serve --http 0 --grpc 0`;
  child = spawn("/bin/sh", ["-c", command, process.execPath, path.join(root, "bin/rubato.js")], {
    cwd: folder,
    stdio: ["ignore", "pipe", "ignore"],
  });
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`exit ${code} before ready`)));
    child.stdout!.on("data", (chunk: Buffer) => {
      const ready = /rubato ready: (http:\S+)/.exec(chunk.toString());
      if (ready !== null) resolve(ready[1]!);
    });
  });
}

/** Status of a process as the system has it: [parent, command, state]. */
function statOf(pid: number | string): { parent: number; name: string; state: string } | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, parent] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state: state!, parent: Number(parent), name: readFileSync(`/proc/${pid}/cmdline`, "utf8") };
  } catch {
    return null;
  }
}

const workers = (): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      const stat = statOf(pid);
      return stat !== null && stat.parent === child.pid && stat.name.includes("worker") && !stat.name.includes("trap");
    })
    .map(Number);

const isGone = (pid: number): boolean => {
  const stat = statOf(pid);
  return stat === null || stat.state === "Z";
};

describe.skipIf(process.platform !== "linux")("worker processes", { retry: 1 }, () => {
  test("a worker that is stopped does not outlive its server that is killed", async () => {
    await serve("");
    const [worker] = workers();
    process.kill(worker!, "SIGSTOP");
    await expect.poll(() => statOf(worker!)?.state).toBe("T");
    try {
      child.kill("SIGKILL");
      await expect.poll(() => isGone(worker!), { timeout: 5000 }).toBe(true);
    } finally {
      if (!isGone(worker!)) process.kill(worker!, "SIGKILL");
    }
  });

  test("a worker that was killed comes back while clients hold every file descriptor", async () => {
    const url = await serve("ulimit -n 160;");
    const ready = async () => (await request(`${url}/metrics`, { dispatcher: agent })).body.text();
    await ready();
    const sockets: Socket[] = [];
    try {
      const descriptors = (): number => readdirSync(`/proc/${child.pid}/fd`).length;
      for (let n = 0; n < 200; n++) sockets.push(connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {}));
      await expect.poll(descriptors, { timeout: 5000 }).toBeGreaterThan(155);
      for (let n = 0; n < 3; n++) {
        const [worker] = workers();
        process.kill(worker!, "SIGKILL");
        const isBack = async () =>
          workers().some((pid) => pid !== worker) && /^rubato_accelerator_up\{.*\} 1$/m.test(await ready());
        await expect.poll(isBack, { timeout: 8000 }).toBe(true);
      }
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });
});
