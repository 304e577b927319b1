/** examples/elastic/classify.mjs as a user runs it, on a tiny model: its servers are real, and what it prints is what the model does. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { stream } from "../../src/sim/random.js";
import { type DrawnTask, drawnTask, putModel, putTask, Reference, TINY } from "../support/elastic-repository.js";
import { root } from "./direct-client.js";

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

function run(...args: string[]): Promise<{ code: number | null; text: string }> {
  const child = spawn(process.execPath, [path.join(root, "examples", "elastic", "classify.mjs"), ...args]);
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (data) => {
      text += data;
    });
  return new Promise((resolve) => child.once("exit", (code) => resolve({ code, text })));
}

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
