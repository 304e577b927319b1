/** Model specifications for tests: everything that a test does not speak about has a plain default. */
import type { ElasticSpec } from "../../src/config/elastic.js";
import type {
  AcceleratorGroupSpec,
  EmulatedSpec,
  ModelSpec,
  TensorSpec,
  VariableAxis,
} from "../../src/config/model.js";
import { durationUs } from "../../src/core/time.js";
import type { Datatype, Tensor } from "../../src/wire/tensors/tensor.js";

export function tensorSpec(
  name: string,
  datatype: Datatype,
  shape: readonly number[],
  rest: Partial<TensorSpec> = {},
): TensorSpec {
  return { name, datatype, shape, batchAxis: 0, variable: null, optional: false, ...rest };
}

/** Two gammas over one layer of width 1, without prompts. */
export function elasticSpec(rest: Partial<ElasticSpec> = {}): ElasticSpec {
  return {
    gammas: [-1, 0],
    gamma: 0,
    layers: 1,
    width: 1,
    classes: null,
    tasksMax: 4,
    classesMax: 10,
    taskBytesMax: 1000,
    imagesMax: 100,
    utilityMax: 10,
    accuracyMin: 0,
    registers: true,
    confidence: null,
    ...rest,
  };
}

export function padded(axis: number, buckets: readonly number[], rest: Partial<VariableAxis> = {}): VariableAxis {
  return { axis, mode: "pad", buckets, padValue: 0, unpad: [], ...rest };
}

export function modelSpec(rest: Partial<ModelSpec> & Pick<ModelSpec, "name">): ModelSpec {
  return {
    version: "1",
    versions: ["1"],
    platform: "onnx_onnxv1",
    file: null,
    folder: "",
    inputs: [],
    outputs: [],
    batchSizeMax: 8,
    batchSizeFixed: null,
    sloUs: null,
    defaultTimeoutUs: durationUs(10_000_000),
    timeoutMaxUs: durationUs(60_000_000),
    policy: "eager",
    policyOptions: {},
    group: "cpu",
    queueRequestsMax: 1000,
    queueBytesMax: 1 << 28,
    emulated: null,
    apps: [],
    parameters: {},
    ...rest,
  };
}

export function emulatedSpec(name: string, emulated: Partial<EmulatedSpec>, rest: Partial<ModelSpec> = {}): ModelSpec {
  return modelSpec({
    name,
    platform: "rubato_emulated",
    group: "emulated",
    inputs: [tensorSpec("x", "FP32", [-1, 2])],
    outputs: [tensorSpec("y", "FP32", [-1, 2])],
    emulated: { alphaMs: 0, betaMs: 1, tableMs: null, ...emulated },
    ...rest,
  });
}

export function group(
  rest: Partial<AcceleratorGroupSpec> & Pick<AcceleratorGroupSpec, "name" | "kind">,
): AcceleratorGroupSpec {
  const count = rest.count ?? 1;
  return { count, threads: 1, scales: new Array<number>(count).fill(1), ...rest };
}

export function fp32(name: string, shape: readonly number[], values: ArrayLike<number>): Tensor {
  const data = Float32Array.from(values);
  return { name, datatype: "FP32", shape, data: new Uint8Array(data.buffer) };
}
export function int64(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  const data = BigInt64Array.from(values.map(BigInt));
  return { name, datatype: "INT64", shape, data: new Uint8Array(data.buffer) };
}
export function floats(tensor: Tensor): number[] {
  const copy = Uint8Array.from(tensor.data);
  return [...new Float32Array(copy.buffer)];
}
