import { closeSync, openSync, readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { SpareDescriptors } from "./spare-descriptors.js";

test("are there for what is opened meanwhile, and are taken again after it", () => {
  const open = () => readdirSync("/proc/self/fd").length;
  const spare = new SpareDescriptors();
  const before = open();
  spare.topUp();
  expect(spare.count).toBeGreaterThanOrEqual(12);
  expect(open()).toBe(before + spare.count);
  const descriptor = spare.lend(() => {
    expect(open()).toBe(before);
    return openSync("/dev/null", "r");
  });
  expect(open()).toBe(before + spare.count + 1);
  closeSync(descriptor);
  expect(() =>
    spare.lend(() => {
      throw new Error("not opened");
    }),
  ).toThrow("not opened");
  expect(open()).toBe(before + spare.count);
  spare.end();
  spare.lend(() => spare.topUp());
  expect(open()).toBe(before);
});
