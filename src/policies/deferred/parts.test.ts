/** A batch that the model refused runs again in parts (core/latency/suspects.ts), worked by hand: l(b) = 10 b + 90 µs. */
import { expect, test } from "vitest";
import { HandDriven } from "../../../test/support/hand-driven.js";
import { FAIL_MODEL_ERROR, FAIL_WORKER_CRASHED } from "../../core/outcome.js";
import { eager } from "../registry.js";

const refused = (at = 5, deadline = 1e9) =>
  new HandDriven({ policy: eager() })
    .arrive(0, "abcdefgh", 0, deadline)
    .until(0)
    .fail(at, 0, FAIL_MODEL_ERROR)
    .until(at);

test("parts: pairs, then the two of the pair that was refused; only the bad one fails, with one try for all of it", () => {
  const run = refused().until(115).fail(120, 0, FAIL_MODEL_ERROR).until(340);
  expect(run.dispatches).toEqual(["0:abcdefgh", "5:ab", "115:cd", "120:ef", "230:gh", "340:c"]);
  run.fail(345, 0, FAIL_MODEL_ERROR).until(1000);
  expect(run.dispatches.at(-1)).toBe("345:d");
  expect([...run.ended].filter(([, how]) => how !== "finished")).toEqual([["c", "failed model-error"]]);
  expect(run.ended.size).toBe(8);
});

test("parts: where there is no time for a pair, its first runs alone", () => {
  expect(refused(70, 175).dispatches).toEqual(["0:abcdefgh", "70:a"]);
});

test("parts: a part whose worker ended runs again one by one", () => {
  const run = refused().fail(10, 0, FAIL_WORKER_CRASHED).join(20, 0).until(1000);
  expect(run.dispatches.slice(1)).toEqual(["5:ab", "20:cd", "130:ef", "240:gh", "350:a", "450:b"]);
  expect(run.ended.size).toBe(8);
});

test("parts: held, a queue sends nothing and keeps what it has; let go, it goes on", () => {
  const run = new HandDriven({ policy: eager() });
  run.scheduler.hold(0, true, 0);
  run.arrive(10, "ab").until(500);
  expect(run.dispatches).toEqual([]);
  run.scheduler.hold(0, false, 500);
  run.until(500);
  expect(run.dispatches).toEqual(["500:ab"]);
});
