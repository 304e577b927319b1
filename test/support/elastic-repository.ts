/** A repository with a tiny elastic model of drawn weights, and tasks for it. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { InferenceSession } from "onnxruntime-node";
import { elasticModel } from "../../src/bench/serving/elastic/elastic-graph.js";
import { drawnWeights, type ElasticGeometry } from "../../src/bench/serving/elastic/elastic-weights.js";
import { normalOf, stream } from "../../src/sim/random.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";
import { packBytes } from "../../src/wire/tensors/tensor-bytes.js";
import { ort } from "../../src/worker/onnx/onnx-runtime.js";

export const TINY: ElasticGeometry = { side: 16, width: 16, heads: 2, layers: 3, stem: [4, 8] };
export const GAMMAS = [-4, -2, 0, 2, 4] as const;
const PROMPTS = GAMMAS.filter((gamma) => gamma > 0);
const PIXELS = TINY.side ** 2;

export interface DrawnTask {
  readonly name: string;
  readonly classes: readonly string[];
  /** [width, classes], [classes]. */
  readonly head: Float32Array;
  readonly bias: Float32Array;
  readonly prompts: ReadonlyMap<number, Float32Array>;
}

/** The same for the same name and seed. */
export function drawnTask(name: string, count: number, seed = 1): DrawnTask {
  const drawn = (part: string, length: number, deviation: number): Float32Array => {
    const random = stream(seed, `${name}/${part}`);
    return Float32Array.from({ length }, () => deviation * normalOf(random(), random()));
  };
  return {
    name,
    classes: Array.from({ length: count }, (_, at) => `${name} ${at}`),
    head: drawn("head", TINY.width * count, 1),
    bias: drawn("bias", count, 0.1),
    prompts: new Map(PROMPTS.map((gamma) => [gamma, drawn(`prompts${gamma}`, TINY.layers * gamma * TINY.width, 0.5)])),
  };
}

/** Numbers in 0..1. */
export function drawnImages(count: number, seed = 1): Float32Array {
  const random = stream(seed, "images");
  return Float32Array.from({ length: count * PIXELS }, () => random());
}

export const imageAt = (images: Float32Array, at: number): Float32Array =>
  images.subarray(at * PIXELS, (at + 1) * PIXELS);

/** Of drawn weights; every test's is the same. */
export const tinyModel = (): Buffer => elasticModel(TINY, drawnWeights(TINY));

/** @param yaml of `elastic:` beyond the gammas, and other keys of the file. */
export function putModel(
  repository: string,
  name: string,
  elastic = "",
  yaml = "slo_ms: 5000\ntimeout_max_ms: 60000\n",
): string {
  const folder = path.join(repository, name);
  mkdirSync(path.join(folder, "1"), { recursive: true });
  writeFileSync(path.join(folder, "1", "model.onnx"), tinyModel());
  writeFileSync(
    path.join(folder, "rubato.yaml"),
    `${yaml}batch_max: 8\nelastic:\n  gammas: [${GAMMAS.join(", ")}]\n${elastic}`,
  );
  return folder;
}

/** As whoever trains tasks puts them there. @param changes of its task.json. */
export function putTask(model: string, task: DrawnTask, changes: object = {}): string {
  const folder = path.join(model, "tasks", task.name);
  mkdirSync(folder, { recursive: true });
  const accuracy = Object.fromEntries(GAMMAS.map((gamma) => [gamma, 0.9 + gamma / 100]));
  const description = { name: task.name, classes: task.classes, utility: 2, gammas: PROMPTS, accuracy, ...changes };
  writeFileSync(path.join(folder, "task.json"), JSON.stringify(description));
  writeFileSync(path.join(folder, "head.bin"), Buffer.concat([bytesOf(task.head), bytesOf(task.bias)]));
  for (const [gamma, values] of task.prompts) writeFileSync(path.join(folder, `prompts-${gamma}.bin`), bytesOf(values));
  return folder;
}

const bytesOf = (values: Float32Array | BigInt64Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/** A registration's tensors. */
export function taskTensors(task: DrawnTask, images: Float32Array, labels: readonly number[]): Tensor[] {
  const { width, layers, side } = TINY;
  const floats = (name: string, shape: number[], values: Float32Array): Tensor => ({
    name,
    datatype: "FP32",
    shape,
    data: bytesOf(values),
  });
  const count = task.classes.length;
  return [
    {
      name: "classes",
      datatype: "BYTES",
      shape: [count],
      data: packBytes(task.classes.map((each) => Buffer.from(each))),
    },
    floats("head", [width, count], task.head),
    floats("bias", [count], task.bias),
    ...[...task.prompts].map(([gamma, values]) => floats(`prompts_${gamma}`, [layers, gamma, width], values)),
    floats("images", [labels.length, 1, side, side], images),
    {
      name: "labels",
      datatype: "INT64",
      shape: [labels.length],
      data: bytesOf(BigInt64Array.from(labels.map(BigInt))),
    },
  ];
}

/** The model run by itself, one image at a time. */
export class Reference {
  private constructor(private readonly session: InferenceSession) {}

  static async create(): Promise<Reference> {
    return new Reference(await ort.InferenceSession.create(tinyModel()));
  }

  async logits(task: DrawnTask, image: Float32Array, gamma: number): Promise<number[]> {
    const { width, layers, side } = TINY;
    const prompts = Math.max(0, gamma);
    const count = task.classes.length;
    const int64 = (value: number) => new ort.Tensor("int64", BigInt64Array.of(BigInt(value)), [1]);
    const { logits } = await this.session.run({
      image: new ort.Tensor("float32", Float32Array.from(image), [1, 1, side, side]),
      task: int64(0),
      r: int64(Math.max(0, -gamma)),
      prompts: new ort.Tensor("float32", task.prompts.get(gamma) ?? new Float32Array(), [1, layers, prompts, width]),
      heads: new ort.Tensor("float32", task.head, [1, width, count]),
      biases: new ort.Tensor("float32", task.bias, [1, count]),
      classes: int64(count),
    });
    return [...(logits!.data as Float32Array)];
  }

  /** Its most likely class. */
  async classOf(task: DrawnTask, image: Float32Array, gamma: number): Promise<number> {
    const logits = await this.logits(task, image, gamma);
    return logits.indexOf(Math.max(...logits));
  }

  release(): Promise<void> {
    return this.session.release();
  }
}
