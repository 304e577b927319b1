import { expect, test } from "vitest";
import { RestartPause } from "./restart-pause.js";

const SECOND = 1_000_000;

test("pauses double while processes end soon, up to 10 s, and begin anew behind one that was up for 10 s", () => {
  const pause = new RestartPause();
  const after = (upS: number): number => pause.after(upS * SECOND) / SECOND;
  expect([0, 1, 9, 0].map(after)).toEqual([0.1, 0.2, 0.4, 0.8]);
  expect([10, 0, 0].map(after)).toEqual([0.1, 0.2, 0.4]);
  expect(Array.from({ length: 6 }, () => after(2))).toEqual([0.8, 1.6, 3.2, 6.4, 10, 10]);
  expect(Array.from({ length: 20 }, () => after(20)).every((each) => each === 0.1)).toBe(true);
});
