import { expect, test } from "vitest";
import { modelSpec } from "../../../../test/fakes/fake-server.js";
import type { InferReply } from "../../gateway.js";
import { toClientShapes, toModelShapes } from "./reshape.js";

const tensor = { datatype: "FP32", batchAxis: 0, variable: null, optional: false };
const model = modelSpec({
  inputs: [
    { name: "x", ...tensor, shape: [-1, 1, -1, 4], clientShape: [-1, -1, 2, 2] },
    { name: "plain", ...tensor, shape: [-1] },
  ],
  outputs: [
    { name: "y", ...tensor, shape: [-1], clientShape: [-1, 1] },
    { name: "plain", ...tensor, shape: [-1] },
  ],
});
const of = (name: string, shape: readonly number[]) => ({
  name,
  datatype: "FP32" as const,
  shape,
  data: new Uint8Array(),
});

test("inputs come in the shape of clients and go on in the model's, the same bytes", () => {
  const given = [of("x", [3, 5, 2, 2]), of("plain", [3]), of("unknown", [9])];
  const taken = toModelShapes(model, given);
  expect(taken.map(({ shape }) => shape)).toEqual([[3, 1, 5, 4], [3], [9]]);
  expect(taken[0]!.data).toBe(given[0]!.data);
});

test("a shape that clients are not told of is refused, the model's own too", () => {
  for (const shape of [[3, 1, 5, 4], [3, 5, 4], [3, 5, 2, 3], []])
    expect(() => toModelShapes(model, [of("x", shape)])).toThrow(
      `unexpected shape for input 'x' for model 'm'. Expected [-1,-1,2,2], got [${shape.join(",")}]`,
    );
});

test("a model without reshape costs nothing: the same tensors and handler", () => {
  const tensors = [of("x", [1, 1])];
  const handler = { onReply: () => {}, onError: () => {} };
  expect(toModelShapes(modelSpec(), tensors)).toBe(tensors);
  expect(toClientShapes(modelSpec(), handler)).toBe(handler);
});

test("outputs go back in the shape of clients; what does not fit is the model's fault", () => {
  const got: unknown[] = [];
  const handler = toClientShapes(model, {
    onReply: ({ outputs }) => got.push(outputs.map(({ shape }) => shape)),
    onError: ({ code, message }) => got.push([code, message]),
  });
  const reply = (outputs: InferReply["outputs"]): InferReply => ({ model: "m", version: "1", outputs, parameters: {} });
  handler.onReply(reply([of("y", [3]), of("plain", [3])]));
  handler.onReply(reply([of("y", [3, 2])]));
  expect(got).toEqual([
    [[3, 1], [3]],
    ["internal", "model 'm': output 'y' must be [-1]; was [3,2]"],
  ]);
});
