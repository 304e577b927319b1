/**
 * The tasks of an elastic model as its graph takes them: heads and prompts of all of them, stacked, and for each batch
 * which of them each row is of. Stacked once, when the tasks change; a run adds two small tensors.
 */
import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import path from "node:path";
import type { Tensor as OrtTensor } from "onnxruntime-node";
import {
  type ElasticSpec,
  gammaOf,
  HEAD_FILE,
  LOGITS,
  promptSizes,
  promptsFile,
  type TaskBinding,
} from "../../config/elastic.js";
import { ServingError } from "../../wire/serving-error.js";
import type { Tensor } from "../../wire/tensors/tensor.js";
import { ort } from "./onnx-runtime.js";

interface Weights {
  readonly binding: TaskBinding;
  /** [width, classes] and then [classes]. */
  readonly head: Float32Array;
  /** By gamma > 0. */
  readonly prompts: ReadonlyMap<number, Float32Array>;
}

export type Feeds = Record<string, OrtTensor>;

export class BoundTasks {
  private readonly spec: ElasticSpec;
  private tasks: readonly Weights[] = [];
  /** By kind: the task's place in the stacks. */
  private readonly places = new Map<number, number>();
  /** What does not change between batches. */
  private heads: Feeds = {};
  /** By the number of prompt tokens, 0 too. */
  private readonly prompts = new Map<number, OrtTensor>();

  constructor(spec: ElasticSpec) {
    this.spec = spec;
    this.stack();
  }

  /**
   * These and no others from now on; weights of those that were there are not read again.
   *
   * @throws ServingError invalid-argument where a file is not as long as it must be; then nothing has changed.
   */
  bind(bindings: readonly TaskBinding[]): void {
    this.tasks = bindings.map((binding) => this.known(binding) ?? this.read(binding));
    this.stack();
  }

  private known({ kind, folder }: TaskBinding): Weights | undefined {
    return this.tasks.find(({ binding }) => binding.kind === kind && binding.folder === folder);
  }

  private read(binding: TaskBinding): Weights {
    const { layers, width } = this.spec;
    const file = (name: string, floats: number): Float32Array => {
      const bytes = readFileSync(path.join(binding.folder, name));
      if (bytes.byteLength !== 4 * floats)
        throw new ServingError(
          "invalid-argument",
          `${path.join(binding.folder, name)}: must have ${4 * floats} bytes; has ${bytes.byteLength}`,
        );
      return new Float32Array(Uint8Array.from(bytes).buffer);
    };
    const sizes = promptSizes(this.spec).map((size) => [size, file(promptsFile(size), layers * size * width)] as const);
    return { binding, head: file(HEAD_FILE, (width + 1) * binding.classes), prompts: new Map(sizes) };
  }

  /** With no task there is one of zeros, so that the graph can be warmed up and timed. */
  private stack(): void {
    const { layers, width } = this.spec;
    const tasks = this.tasks;
    const count = Math.max(1, tasks.length);
    const columns = this.spec.classes ?? Math.max(2, ...tasks.map(({ binding }) => binding.classes));
    const heads = new Float32Array(count * width * columns);
    const biases = new Float32Array(count * columns);
    const classes = new BigInt64Array(count).fill(BigInt(columns));
    this.places.clear();
    for (const [place, { binding, head }] of tasks.entries()) {
      const own = binding.classes;
      for (let row = 0; row < width; row++)
        heads.set(head.subarray(row * own, (row + 1) * own), (place * width + row) * columns);
      biases.set(head.subarray(width * own), place * columns);
      classes[place] = BigInt(own);
      this.places.set(binding.kind, place);
    }
    this.heads = {
      heads: new ort.Tensor("float32", heads, [count, width, columns]),
      biases: new ort.Tensor("float32", biases, [count, columns]),
      classes: new ort.Tensor("int64", classes, [count]),
    };
    this.prompts.clear();
    for (const size of [0, ...promptSizes(this.spec)]) {
      const floats = layers * size * width;
      const stacked = new Float32Array(count * floats);
      if (size > 0) for (const [place, { prompts }] of tasks.entries()) stacked.set(prompts.get(size)!, place * floats);
      this.prompts.set(size, new ort.Tensor("float32", stacked, [count, layers, size, width]));
    }
  }

  /**
   * What a batch is fed beside its images.
   *
   * @param kinds of its members; empty: of the first task. @param memberRows of each. @param rows of the run.
   * @throws ServingError internal where a kind is not bound: tasks are bound before their requests are let in.
   */
  feeds(variant: number, kinds: readonly number[], memberRows: readonly number[], rows: number): Feeds {
    const gamma = gammaOf(this.spec, variant);
    const task = new BigInt64Array(rows);
    let row = 0;
    for (const [member, own] of memberRows.entries()) {
      const place = kinds.length === 0 ? 0 : this.placeOf(kinds[member]!);
      task.fill(BigInt(place), row, row + own);
      row += own;
    }
    return {
      ...this.heads,
      task: new ort.Tensor("int64", task, [rows]),
      r: new ort.Tensor("int64", BigInt64Array.of(BigInt(Math.max(0, -gamma))), [1]),
      prompts: this.prompts.get(Math.max(0, gamma))!,
    };
  }

  private placeOf(kind: number): number {
    const place = this.places.get(kind);
    if (place === undefined) throw new ServingError("internal", `task of kind ${kind} is not bound`);
    return place;
  }

  /** The folder of a task. @throws ServingError as `feeds`. */
  folderOf(kind: number): string {
    return this.tasks[this.placeOf(kind)]!.binding.folder;
  }

  /** An answer has a column for each class of its own task, however many others have. */
  cut(kind: number | undefined, outputs: readonly Tensor[]): readonly Tensor[] {
    const classes = kind === undefined ? undefined : this.tasks[this.placeOf(kind)]?.binding.classes;
    if (classes === undefined) return outputs;
    return outputs.map((output) => (output.name === LOGITS ? firstColumns(output, classes) : output));
  }
}

/**
 * A part of a file of equal entries, in memory of its own.
 *
 * @throws ServingError invalid-argument where the file ends before.
 */
export function readEntries(file: string, entryBytes: number, first: number, count: number): Uint8Array {
  const data = new Uint8Array(entryBytes * count);
  const handle = openSync(file, "r");
  try {
    const got = readSync(handle, data, 0, data.byteLength, entryBytes * first);
    if (got === data.byteLength) return data;
    const entries = Math.floor(fstatSync(handle).size / entryBytes);
    throw new ServingError("invalid-argument", `${file}: must have ${first + count} entries; has ${entries}`);
  } finally {
    closeSync(handle);
  }
}

/**
 * How many rows have their largest value in the column of their label; the first of equals counts.
 *
 * @param gamma of the run. @throws ServingError internal where a value is no number.
 */
export function countRight(logits: Tensor, labels: Int32Array, gamma: number): number {
  const [rows = 0, columns = 0] = logits.shape;
  const { buffer, byteOffset } = logits.data;
  const bytes = byteOffset % 4 === 0 ? logits.data : Uint8Array.from(logits.data);
  const values = new Float32Array(bytes === logits.data ? buffer : bytes.buffer, bytes.byteOffset, rows * columns);
  const bad = values.find((value) => !Number.isFinite(value));
  if (bad !== undefined)
    throw new ServingError(
      "internal",
      `output '${logits.name}' must hold finite numbers at every gamma; has ${bad} at gamma ${gamma}, to which the task's head, bias${gamma > 0 ? `, prompts_${gamma}` : ""} or images lead`,
      { reason: "model-error" },
    );
  let right = 0;
  for (let row = 0; row < rows; row++) {
    let best = 0;
    for (let column = 1; column < columns; column++)
      if (values[row * columns + column]! > values[row * columns + best]!) best = column;
    if (best === labels[row]) right++;
  }
  return right;
}

function firstColumns(tensor: Tensor, count: number): Tensor {
  const [rows = 0, columns = 0] = tensor.shape;
  if (columns <= count) return tensor;
  const bytes = 4 * count;
  const data = new Uint8Array(rows * bytes);
  for (let row = 0; row < rows; row++) {
    const from = row * columns * 4;
    data.set(tensor.data.subarray(from, from + bytes), row * bytes);
  }
  return { ...tensor, shape: [rows, count], data };
}
