import { expect, it } from "vitest";
import { TokenLengths } from "./token-lengths.js";

/** What is drawn by hand: by number, then part. */
const drawing = (parts: readonly (readonly number[])[]) => ({
  uniform: (number: number, part: number) => parts[number]![part]!,
});

it("a length is on the straight line between two quantiles, prompts and answers apart", () => {
  const tokens = {
    endsFirst: false,
    areRows: false,
    input: Float64Array.of(10, 20, 100),
    output: Float64Array.of(7, 7),
  };
  const lengths = new TokenLengths(
    tokens,
    drawing([
      [0, 0.9],
      [0.25, 0],
      [0.75, 0.5],
    ]),
  );
  expect([0, 1, 2].map((number) => [lengths.promptOf(number, 0), lengths.answerOf(number, 0)])).toEqual([
    [10, 7],
    [15, 7],
    [60, 7],
  ]);
});

it("of a file the prompt and the answer are of one row", () => {
  const tokens = {
    endsFirst: true,
    areRows: true,
    input: Float64Array.of(1, 2, 3),
    output: Float64Array.of(10, 20, 30),
  };
  const lengths = new TokenLengths(tokens, drawing([[0], [0.34], [0.999]]));
  expect([0, 1, 2].map((number) => [lengths.promptOf(number, 0), lengths.answerOf(number, 0)])).toEqual([
    [1, 10],
    [2, 20],
    [3, 30],
  ]);
});

it("parts of one request draw apart", () => {
  const tokens = { endsFirst: true, areRows: false, input: Float64Array.of(1, 101), output: Float64Array.of(1, 201) };
  const lengths = new TokenLengths(tokens, drawing([[0.1, 0.2, 0.3, 0.4]]));
  expect([lengths.promptOf(0, 0), lengths.answerOf(0, 0), lengths.promptOf(0, 1), lengths.answerOf(0, 1)]).toEqual([
    11, 41, 31, 81,
  ]);
});
