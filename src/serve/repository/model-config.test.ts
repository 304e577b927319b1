import { expect, test } from "vitest";
import { modelSpec, tensorSpec } from "../../../test/support/specs.js";
import { modelConfigJson } from "./model-config.js";

const input = (axis: number | null) => tensorSpec("x", "FP32", [-1, 2, -1], { batchAxis: axis });
const config = (axis: number | null, batchSizeMax = 8) =>
  modelConfigJson(
    modelSpec({ name: "m", batchSizeMax, inputs: [input(axis)], outputs: [tensorSpec("y", "FP32", [-1, 3])] }),
    [],
  );

test("model config: the batch as the first dimension is left out of dims", () => {
  expect(config(0)).toMatchObject({
    max_batch_size: 8,
    input: [{ dims: [2, -1] }],
    output: [{ dims: [3] }],
    parameters: {},
  });
  expect(config(0, 0)).toMatchObject({ max_batch_size: 0, input: [{ dims: [-1, 2, -1] }], parameters: {} });
});

test.each([
  [2, "2"],
  [null, "none"],
])("model config: a batch elsewhere (%s) is said, and shapes are whole", (axis, said) => {
  expect(config(axis)).toMatchObject({
    max_batch_size: 0,
    input: [{ dims: [-1, 2, -1] }],
    output: [{ dims: [-1, 3] }],
    parameters: {
      "rubato.max_batch_size": { string_value: "8" },
      "rubato.batch_axis.x": { string_value: said },
      "rubato.batch_axis.y": { string_value: "0" },
    },
  });
});

test("model config: instances are the accelerators that serve in the group of the model, at least one; a pipeline has none", () => {
  const instances = (group: string) =>
    modelConfigJson(modelSpec({ name: "m", group }), [{ group: "g", serving: 3 }]).instance_group;
  expect(instances("g")).toMatchObject([{ name: "g", count: 3 }]);
  expect(instances("gone")).toMatchObject([{ name: "gone", count: 1 }]);
  expect(instances("")).toEqual([]);
});
