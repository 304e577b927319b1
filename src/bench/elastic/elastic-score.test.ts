import { expect, test } from "vitest";
import { classify, type ScoredQuery, scoreOf } from "./elastic-score.js";

const query = (changes: Partial<ScoredQuery>): ScoredQuery => ({
  type: 0,
  utility: 1,
  best: 0.9,
  end: "in-time",
  gamma: 0,
  isRight: true,
  ...changes,
});

test("utility is earned in time and right, not late, not wrong; the ceiling is that of all that arrived", () => {
  const score = scoreOf(
    [
      query({ gamma: -8 }),
      query({ type: 1, utility: 0.25, best: 0.2, gamma: -8 }),
      query({ isRight: false }),
      query({ end: "late", gamma: 4 }),
      query({ type: 1, utility: 0.25, best: 0.2, end: "dropped", gamma: null, isRight: false }),
    ],
    2,
  );
  expect(score).toEqual({
    arrived: 5,
    in_time: 3,
    right: 2,
    late: 1,
    dropped: 1,
    offered: 3.5,
    earned: 1.25,
    ceiling: expect.closeTo(3.1, 12),
    gammas: { "-8": 2, "0": 1, "4": 1 },
    types: [
      { arrived: 3, in_time: 2, right: 1 },
      { arrived: 2, in_time: 1, right: 1 },
    ],
  });
});

const answer = (json: object, ...tensors: readonly (readonly number[])[]) => {
  const head = Buffer.from(JSON.stringify(json));
  const bodies = tensors.map((values) => Buffer.from(Float32Array.from(values).buffer));
  return { bytes: Buffer.concat([head, ...bodies]), jsonBytes: head.byteLength };
};
const output = (name: string, bytes: number) => ({ name, parameters: { binary_data_size: bytes } });

test("the class is that of the largest logit, wherever the logits lie; the first of equals", () => {
  const outputs = [output("tokens", 8), output("logits", 16)];
  const body = answer({ outputs, parameters: { gamma: -4 } }, [9, 9], [-3, 2.5, 2.5, 1]);
  expect(classify(body)).toEqual({ found: 1, gamma: -4 });
});

test("an answer without logits or without a gamma is no answer", () => {
  expect(() => classify(answer({ outputs: [output("logits", 4)] }, [1]))).toThrow(
    /must have binary logits and a gamma/,
  );
  expect(() => classify(answer({ outputs: [output("other", 4)], parameters: { gamma: 0 } }, [1]))).toThrow(/logits/);
});
