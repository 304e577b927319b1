/** Images with true labels beside an elastic model: `images/TASK.bin`, a byte a pixel, and `images/TASK.labels.bin`, a byte a label; or the same with `.gz`. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { ServingError } from "../../wire/serving-error.js";
import type { Tensor } from "../../wire/tensors/tensor.js";

export interface TestImages {
  readonly task: string;
  readonly labels: Uint8Array;
  /** As clients send it: FP32 [1, 1, side, side], from 0 to 1. */
  image(index: number): Tensor;
}

/** @param model its folder. @param input name of the tensor. @throws ServingError not-found, or invalid-argument: sizes that cannot be. */
export function readTestImages(model: string, task: string, input: string, side: number): TestImages {
  const pixels = read(model, `${task}.bin`);
  const labels = read(model, `${task}.labels.bin`);
  const size = side * side;
  if (labels.length === 0 || pixels.length !== labels.length * size)
    throw new ServingError(
      "invalid-argument",
      `${path.join(model, "images")}: ${task}.bin must have ${size} bytes for each of ${labels.length} labels, at least one; has ${pixels.length}`,
    );
  return {
    task,
    labels,
    image(index) {
      const values = Float32Array.from(pixels.subarray(index * size, (index + 1) * size), (value) => value / 255);
      return { name: input, datatype: "FP32", shape: [1, 1, side, side], data: new Uint8Array(values.buffer) };
    },
  };
}

function read(model: string, name: string): Uint8Array {
  const file = path.join(model, "images", name);
  if (existsSync(file)) return readFileSync(file);
  if (existsSync(`${file}.gz`)) return gunzipSync(readFileSync(`${file}.gz`));
  throw new ServingError("not-found", `no test images: ${file} or ${file}.gz`);
}
