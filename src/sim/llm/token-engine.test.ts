import { describe, expect, it } from "vitest";
import { aloneUs, TokenEngine } from "./token-engine.js";

const SPEC = { iterationUs: 100, sequenceUs: 10, prefillUs: 2, sequencesMax: 4, tokensMax: 8, kvTokens: 100 };

/** Runs iterations until nobody is left. @returns of each: its time, who gave a first token, who the last. */
function drain(engine: TokenEngine): [number, number[], number[]][] {
  const iterations: [number, number[], number[]][] = [];
  for (let us = engine.begin(); us > 0; us = engine.begin()) {
    engine.end(1);
    iterations.push([us, [...engine.first], [...engine.last]]);
    for (const slot of [...engine.last]) engine.release(slot);
  }
  return iterations;
}

describe("iterations of continuous batching, by hand", () => {
  it("a prompt that fits one iteration gives its first token there; then a token an iteration", () => {
    const engine = new TokenEngine(SPEC, 20);
    engine.admit(5, 3);
    expect(drain(engine)).toEqual([
      [110, [0], []],
      [110, [], []],
      [110, [], [0]],
    ]);
  });

  it("a longer prompt takes several iterations, and who generates goes first", () => {
    const engine = new TokenEngine(SPEC, 30);
    engine.admit(1, 5);
    expect(engine.begin()).toBe(102);
    engine.end(1);
    expect(engine.first).toEqual([0]);
    // A token of the first sequence leaves 7 of 8: 7 of the prompt of 16, 7 more, 2.
    engine.admit(16, 1);
    expect(drain(engine)).toEqual([
      [100 + 10 + 14, [], []],
      [100 + 10 + 14, [], []],
      [100 + 10 + 4, [1], [1]],
      [110, [], [0]],
    ]);
  });

  it("prompts are taken in the order of their admission", () => {
    const engine = new TokenEngine(SPEC, 30);
    engine.admit(6, 1);
    engine.admit(6, 1);
    expect(drain(engine)).toEqual([
      [116, [0], [0]],
      [108, [1], [1]],
    ]);
  });

  it("an answer of one token is its first and its last", () => {
    const engine = new TokenEngine(SPEC, 20);
    engine.admit(8, 1);
    expect(drain(engine)).toEqual([[116, [0], [0]]]);
  });
});

describe("room for one more", () => {
  it("ends with the slots, and those that are released are given again, the last first", () => {
    const engine = new TokenEngine(SPEC, 10);
    expect([1, 1, 1, 1].map((prompt) => engine.admit(prompt, 2))).toEqual([0, 1, 2, 3]);
    expect(engine.hasRoom).toBe(false);
    engine.begin();
    engine.end(1);
    engine.release(2);
    engine.release(1);
    expect(engine.hasRoom).toBe(true);
    expect([engine.nextSlot, engine.admit(1, 1), engine.admit(1, 1)]).toEqual([1, 1, 2]);
  });

  it("ends with the tokens of an iteration: prompts that wait, and one of each that generates", () => {
    const engine = new TokenEngine(SPEC, 10);
    engine.admit(7, 2);
    expect(engine.hasRoom).toBe(true);
    engine.admit(1, 2);
    expect(engine.hasRoom).toBe(false);
    engine.begin();
    engine.end(1);
    engine.admit(5, 2);
    expect(engine.hasRoom).toBe(true);
    engine.release(0);
    engine.admit(2, 2);
    expect(engine.hasRoom).toBe(false);
  });

  it("ends where the longest request would not fit the memory, and comes back with what is released", () => {
    const engine = new TokenEngine({ ...SPEC, kvTokens: 25 }, 12);
    engine.admit(2, 11);
    expect(engine.hasRoom).toBe(true);
    engine.admit(1, 1);
    expect(engine.hasRoom).toBe(false);
    engine.release(1);
    expect(engine.hasRoom).toBe(true);
  });
});

describe("whose time it is", () => {
  it("each has what it adds and even parts of the rest; together that is the iterations'", () => {
    const engine = new TokenEngine(SPEC, 20);
    engine.admit(1, 2);
    engine.begin();
    engine.end(1);
    expect(engine.takeSpentUs(0)).toBe(102);
    engine.admit(4, 1);
    expect(engine.begin()).toBe(118);
    engine.end(0.5);
    expect([engine.takeSpentUs(0), engine.takeSpentUs(1)]).toEqual([30, 29]);
    expect(engine.takeSpentUs(0)).toBe(0);
  });

  it("a prompt that gets nothing of an iteration pays nothing for it", () => {
    const engine = new TokenEngine(SPEC, 20);
    engine.admit(8, 1);
    engine.admit(3, 1);
    engine.begin();
    engine.end(1);
    expect([engine.takeSpentUs(0), engine.takeSpentUs(1)]).toEqual([116, 0]);
  });
});

it("a request alone takes what the engine takes for it", () => {
  for (const [prompt, answer] of [
    [1, 1],
    [8, 4],
    [9, 1],
    [30, 7],
  ] as const) {
    const engine = new TokenEngine(SPEC, 40);
    engine.admit(prompt, answer);
    const times = drain(engine);
    const untilFirst = times.findIndex(([, first]) => first.length > 0) + 1;
    const sum = (count: number): number => times.slice(0, count).reduce((all, [us]) => all + us, 0);
    expect(aloneUs(SPEC, prompt, answer, true)).toBe(sum(untilFirst));
    expect(aloneUs(SPEC, prompt, answer, false)).toBe(sum(times.length));
  }
});

it("nobody is admitted or released within an iteration, nothing without tokens", () => {
  const engine = new TokenEngine(SPEC, 20);
  expect(() => engine.admit(0, 1)).toThrow("at least 1 token; were 0 and 1");
  engine.admit(1, 1);
  engine.begin();
  expect(() => engine.admit(1, 1)).toThrow("between iterations");
  expect(() => engine.release(1)).toThrow("slot 1 is released between iterations, where it is taken");
});
