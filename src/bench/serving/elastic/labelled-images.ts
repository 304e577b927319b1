/** Images of a task with their true labels: `TASK.bin`, a byte a pixel, and `TASK.labels.bin`, a byte a label; or the same with `.gz`. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { ServingError } from "../../../wire/serving-error.js";

export interface LabelledImages {
  readonly task: string;
  readonly labels: Uint8Array;
  /** Row by row, from 0 to 1. */
  pixels(index: number): Float32Array;
}

/** @param side of an image, pixels. @throws ServingError not-found, or invalid-argument: sizes that cannot be. */
export function readLabelledImages(folder: string, task: string, side: number): LabelledImages {
  const bytes = read(folder, `${task}.bin`);
  const labels = read(folder, `${task}.labels.bin`);
  const size = side * side;
  if (labels.length === 0 || bytes.length !== labels.length * size)
    throw new ServingError(
      "invalid-argument",
      `${folder}: ${task}.bin must have ${size} bytes for each of ${labels.length} labels, at least one; has ${bytes.length}`,
    );
  return {
    task,
    labels,
    pixels: (index) => Float32Array.from(bytes.subarray(index * size, (index + 1) * size), (value) => value / 255),
  };
}

function read(folder: string, name: string): Uint8Array {
  const file = path.join(folder, name);
  if (existsSync(file)) return readFileSync(file);
  if (existsSync(`${file}.gz`)) return gunzipSync(readFileSync(`${file}.gz`));
  throw new ServingError("not-found", `no test images: ${file} or ${file}.gz`);
}
