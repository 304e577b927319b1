/** examples/elastic/classify.mjs as a user runs it, on a tiny model: its servers are real, and what it prints is what the model does. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { stream } from "../../src/sim/random.js";
import { type DrawnTask, drawnTask, putModel, putTask, Reference, TINY } from "../support/elastic-repository.js";
import { root } from "./direct-client.js";
import { runExample } from "./run-example.js";

const COUNT = 12;
const PIXELS = TINY.side ** 2;
const TASKS = [drawnTask("bags", 4), drawnTask("letters", 3)];
const random = stream(7, "example");
const images = Uint8Array.from({ length: COUNT * PIXELS }, () => Math.floor(256 * random()));
const imageOf = (at: number): Float32Array =>
  Float32Array.from(images.subarray(at * PIXELS, (at + 1) * PIXELS), (value) => value / 255);

let folder: string;
let reference: Reference;
const labels = new Map<DrawnTask, number[]>();
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-example-"));
  const model = putModel(folder, "vit");
  mkdirSync(path.join(model, "images"));
  reference = await Reference.create();
  for (const task of TASKS) {
    putTask(model, task);
    const own: number[] = [];
    // Every third is wrong.
    for (let at = 0; at < COUNT; at++)
      own.push(((await reference.classOf(task, imageOf(at), 0)) + (at % 3 === 0 ? 1 : 0)) % task.classes.length);
    labels.set(task, own);
    writeFileSync(path.join(model, "images", `${task.name}.bin`), images);
    writeFileSync(path.join(model, "images", `${task.name}.labels.bin`), Uint8Array.from(own));
  }
});
afterAll(async () => {
  await reference.release();
  rmSync(folder, { recursive: true, force: true });
});

const program = path.join(root, "examples", "elastic", "classify.mjs");

const run = async (...flags: string[]): Promise<{ code: number | null; text: string }> => {
  const { status, stdout, stderr } = await runExample("elastic/classify.mjs", ...flags);
  return { code: status, text: stdout + stderr };
};

test("prints, by gamma and task, how often the model is right by the labels, and how fast", async () => {
  const { code, text } = await run(
    "--repository",
    folder,
    "--model",
    "vit",
    "--gammas=-4,0,4",
    "--count",
    String(COUNT),
  );
  expect(text).toMatch(/^task +gamma +right +images\/s\n/);
  expect(code).toBe(0);
  const rows = text.trim().split("\n").slice(1);
  expect(rows).toHaveLength(6);
  for (const [index, row] of rows.entries()) {
    const gamma = [-4, 0, 4][Math.floor(index / 2)]!;
    const task = TASKS[index % 2]!;
    let right = 0;
    for (let at = 0; at < COUNT; at++)
      if ((await reference.classOf(task, imageOf(at), gamma)) === labels.get(task)![at]) right++;
    const [name, served, share, speed] = row.split(/ +/);
    expect([name, served, share]).toEqual([task.name, String(gamma), (right / COUNT).toFixed(3)]);
    expect(Number(speed)).toBeGreaterThan(0);
  }
}, 300_000);

test("a gamma that is not the model's is said by the server's own reason, and the example ends with status 1", async () => {
  const { code, text } = await run("--repository", folder, "--model", "vit", "--gammas=3");
  expect(text).toMatch(
    /failed: vit is not served: vit\/rubato\.yaml: elastic\.gamma: must be one of gammas .*; was 3\n$/,
  );
  expect(code).toBe(1);
}, 300_000);

test.each([
  [["--gammas=abc"], "--gammas must be a whole number in [-256, 256]; was abc\n"],
  [["--count", "0"], "--count must be a whole number in [1, 1000000]; was 0\n"],
  [["--count", "x"], "--count must be a whole number in [1, 1000000]; was x\n"],
  [["--in-flight", "2.5"], "--in-flight must be a whole number in [1, 1024]; was 2.5\n"],
  [["--model", "nope"], "--model must be an elastic model of "],
  [["--model", "vad"], "--model must be an elastic model of "],
  [["--images", "/nowhere"], "--images must be a folder; was /nowhere\n"],
  [["--protocol", "grpc"], "Unknown option '--protocol': it must be one of --model, "],
])(
  "a wrong flag is one line and status 2: %s",
  async (flags, line) => {
    const { code, text } = await run(...flags);
    expect(text.startsWith(line) && text.trim().split("\n").length === 1, text).toBe(true);
    expect(code).toBe(2);
  },
  60_000,
);

/** What the server of an example leaves behind would be here, and nothing else is. */
async function ended(signal: NodeJS.Signals, isServing: boolean): Promise<{ code: number | null; left: string[] }> {
  const own = mkdtempSync(path.join(folder, "tmp-"));
  const args = ["--repository", folder, "--model", "vit", "--gammas=0,4,8"];
  const child = spawn(process.execPath, [program, ...args], { env: { ...process.env, TMPDIR: own } });
  const closed = new Promise<number | null>((resolve) => child.once("close", resolve));
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  let text = "";
  child.stdout.on("data", (data) => {
    text += data;
  });
  child.stderr.resume();
  await until(() => (isServing ? text.split("\n").length > 2 : serversIn(own).length > 0));
  child.kill(signal);
  const code = await closed;
  // The server has been waited for; its workers end with their sockets.
  await until(() => serversIn(own).length === 0);
  return { code, left: readdirSync(own).filter((name) => name.startsWith("rubato-example-")) };
}

/** Processes whose command line names this folder. */
function serversIn(own: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(own);
    } catch {
      return false;
    }
  });
}

test.skipIf(process.platform !== "linux").each([
  ["SIGTERM", 143, true],
  ["SIGINT", 130, false],
] as const)(
  "%s ends its server and takes its folder",
  async (signal, status, isServing) => {
    expect(await ended(signal, isServing)).toEqual({ code: status, left: [] });
  },
  300_000,
);
