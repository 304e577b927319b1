import { describe, expect, test } from "vitest";
import { Release } from "./release.js";

/** Refused from `at` on. @returns how long until it is released. */
function pauseFrom(release: Release, at: number): number {
  release.refused(at);
  release.refused(at + 1);
  return release.dueAt - at;
}

describe("estimates that forbid their own measurement", () => {
  test("are released a second after the first refusal; each try in vain doubles the pause, to 4 s", () => {
    const release = new Release();
    expect(release.dueAt).toBe(Number.POSITIVE_INFINITY);
    const pauses = [];
    for (let n = 0; n < 5; n++) {
      pauses.push(pauseFrom(release, n * 1e7));
      release.released();
    }
    expect(pauses).toEqual([1e6, 2e6, 4e6, 4e6, 4e6]);
  });

  test("a measurement ends the count of refusals", () => {
    const release = new Release();
    release.refused(0);
    release.measured();
    expect(release.dueAt).toBe(Number.POSITIVE_INFINITY);
    expect(pauseFrom(release, 900_000)).toBe(1e6);
  });

  test("one measurement is the try's own; the second says that it is served again", () => {
    const release = new Release();
    release.refused(0);
    release.released();
    release.measured();
    expect(pauseFrom(release, 2e6)).toBe(2e6);
    release.measured();
    release.measured();
    expect(pauseFrom(release, 4e6)).toBe(1e6);
  });

  test("where nothing was there to try it with, the pause stays", () => {
    const release = new Release();
    release.refused(0);
    release.released(false);
    expect(pauseFrom(release, 2e6)).toBe(1e6);
  });
});
