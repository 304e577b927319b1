import { execFileSync } from "node:child_process";
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { decodeLog } from "../../core/event-log.js";
import { LOG_WOKEN } from "../../core/event-rows.js";
import { FileRecorder } from "./event-recorder.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-recorder-"));
});
afterEach(() => rmSync(folder, { recursive: true }));
const header = { format: "rubato-events-2", groups: [] } as const;

test("at its size limit a log is whole, and its owner is told once", () => {
  const file = path.join(folder, "log");
  const ends: string[] = [];
  const recorder = new FileRecorder(file, header, 4096, (why) => ends.push(why));
  for (let at = 0; at < 1000; at++) recorder.row(LOG_WOKEN, at, 0, 0, 0, 0, 0, 0);
  recorder.close();
  expect(statSync(file).size).toBeLessThanOrEqual(4096);
  expect(decodeLog(readFileSync(file)).rows.length).toBeGreaterThan(0);
  expect(ends).toEqual([`recording of events into ${file} ended: it has event_log.max_bytes`]);
});

test("a log that can no longer be written ends; who records goes on", () => {
  const file = path.join(folder, "pipe");
  execFileSync("mkfifo", [file]);
  const reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  const ends: string[] = [];
  const recorder = new FileRecorder(file, header, 1 << 20, (why) => ends.push(why));
  closeSync(reader);
  recorder.row(LOG_WOKEN, 1, 0, 0, 0, 0, 0, 0);
  recorder.flush();
  recorder.row(LOG_WOKEN, 2, 0, 0, 0, 0, 0, 0);
  recorder.close();
  expect(ends).toEqual([expect.stringMatching(/ended: EPIPE/)]);
});
