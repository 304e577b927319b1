/** A repository with a tiny elastic model of drawn weights, and tasks for it. */
import type { InferenceSession } from "onnxruntime-node";
import { type DrawnTask, TINY, tinyModel } from "../../src/bench/elastic/tiny-elastic.js";
import { stream } from "../../src/sim/random.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";
import { packBytes } from "../../src/wire/tensors/tensor-bytes.js";
import { ort } from "../../src/worker/onnx/onnx-runtime.js";

export { type DrawnTask, drawnTask, GAMMAS, putModel, putTask, TINY } from "../../src/bench/elastic/tiny-elastic.js";

const PIXELS = TINY.side ** 2;

/** Numbers in 0..1. */
export function drawnImages(count: number, seed = 1): Float32Array {
  const random = stream(seed, "images");
  return Float32Array.from({ length: count * PIXELS }, () => random());
}

export const imageAt = (images: Float32Array, at: number): Float32Array =>
  images.subarray(at * PIXELS, (at + 1) * PIXELS);

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
