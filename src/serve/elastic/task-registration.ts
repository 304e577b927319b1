/** A task as a client registers it: named tensors and parameters, held against the model. */
import { type ElasticSpec, LOGITS, promptSizes } from "../../config/elastic.js";
import type { ModelSpec } from "../../config/model.js";
import { isTaskName, TASK_NAME_BOUND, TASK_SLO_MS_MIN } from "../../config/server/task-file.js";
import { describe, type Parameters, type ParameterValue } from "../../wire/infer-parameters.js";
import { ServingError } from "../../wire/serving-error.js";
import { readBytesElements } from "../../wire/tensors/bytes-tensor.js";
import { byteCountProblem, elementCount, type Tensor } from "../../wire/tensors/tensor.js";
import type { TaskRegistration } from "../gateway.js";
import { asTaskFault } from "../task-fault.js";

/** What has been checked. */
export interface TaskDraft {
  readonly name: string;
  readonly classes: readonly string[];
  readonly utility: number;
  readonly sloMs: number | null;
  /** [width, classes], and [classes]. */
  readonly head: Float32Array;
  readonly bias: Float32Array;
  /** By gamma > 0: [layers, gamma, width]. */
  readonly prompts: ReadonlyMap<number, Float32Array>;
  /** The profiling set: as clients send images, and a class for each. */
  readonly images: Uint8Array;
  readonly labels: Int32Array;
}

/** Fewer say nothing of how often a task is right. */
const IMAGES_MIN = 16;
const CLASS_CHARS_MAX = 256;
/** Of all names together, with their lengths: written as JSON they fit a task.json. */
const CLASSES_BYTES_MAX = 128 * 1024;
/** Looked at before others have a turn, elements. */
const SLICE = 1 << 18;

const PARAMETERS = ["utility", "slo_ms", "binary_data_output"] as const;

/** @throws ServingError invalid-argument */
export function checkTaskName(name: string): void {
  if (!isTaskName(name)) throw invalid(`name of a task must be ${TASK_NAME_BOUND}; was ${describe(name)}`);
}

/**
 * @param turn resolves when others have had one: large tensors are looked at in slices.
 * @throws ServingError invalid-argument naming the task, the tensor or parameter, what it must be and what it was.
 */
export async function readRegistration(
  spec: ModelSpec,
  name: string,
  { tensors, parameters }: TaskRegistration,
  turn: () => Promise<void>,
): Promise<TaskDraft> {
  const elastic = spec.elastic!;
  checkTaskName(name);
  const { utility, sloMs } = readParameters(spec, name, parameters);
  const given = new GivenTensors(name, tensors);
  const { width, layers } = elastic;
  const image = spec.inputs[0]!;
  given.checkNames(
    new Map([
      ["classes", "BYTES [classes]"],
      ["head", `FP32 [${width}, classes]`],
      ["bias", "FP32 [classes]"],
      ...promptSizes(elastic).map((size) => [promptsName(size), `FP32 [${layers}, ${size}, ${width}]`] as const),
      ["images", `${image.datatype} [n, ${image.shape.slice(1).join(", ")}]`],
      ["labels", "INT64 [n]"],
    ]),
  );
  const classes = readClasses(elastic, given);
  const head = given.floats("head", [width, classes.length]);
  const bias = given.floats("bias", [classes.length]);
  const prompts = new Map(
    promptSizes(elastic).map((size) => [size, given.floats(promptsName(size), [layers, size, width])]),
  );
  const weightBytes = [head, bias, ...prompts.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (weightBytes > elastic.taskBytesMax)
    throw invalid(`task '${name}': its weights must be at most ${elastic.taskBytesMax} bytes; were ${weightBytes}`);
  const { images, labels } = readProfilingSet(spec, given, classes.length);
  const weights: [string, Float32Array][] = [
    ["head", head],
    ["bias", bias],
  ];
  for (const [size, values] of prompts) weights.push([promptsName(size), values]);
  if (images.datatype === "FP32") weights.push(["images", floatsOf(images)]);
  for (const [tensor, values] of weights) await checkFinite(name, tensor, values, turn);
  return { name, classes, utility, sloMs, head, bias, prompts, images: images.data, labels };
}

const promptsName = (size: number): string => `prompts_${size}`;

function readParameters(
  spec: ModelSpec,
  name: string,
  parameters: Parameters,
): { utility: number; sloMs: number | null } {
  const unknown = Object.keys(parameters).find((key) => !(PARAMETERS as readonly string[]).includes(key));
  if (unknown !== undefined)
    throw invalid(
      `task '${name}': parameter '${unknown}' is none of utility, slo_ms; was ${describe(parameters[unknown])}`,
    );
  const refused = (key: string, bound: string, value: ParameterValue): ServingError =>
    invalid(`task '${name}': parameter '${key}' must be a number in ${bound}; was ${describe(value)}`);
  const { utility = 1, slo_ms } = parameters;
  const { utilityMax } = spec.elastic!;
  if (typeof utility !== "number" || !(utility > 0 && utility <= utilityMax))
    throw refused("utility", `(0, ${utilityMax}]`, utility);
  if (slo_ms === undefined) return { utility, sloMs: null };
  const sloMax = spec.timeoutMaxUs / 1000;
  if (typeof slo_ms !== "number" || !(slo_ms >= TASK_SLO_MS_MIN && slo_ms <= sloMax))
    throw refused("slo_ms", `[${TASK_SLO_MS_MIN}, ${sloMax}]`, slo_ms);
  return { utility, sloMs: slo_ms };
}

class GivenTensors {
  constructor(
    private readonly task: string,
    private readonly tensors: readonly Tensor[],
  ) {}

  /** Each once, and no others. @param wanted by name, datatype and shape in words. */
  checkNames(wanted: ReadonlyMap<string, string>): void {
    const names = this.tensors.map(({ name }) => name);
    for (const [name, what] of wanted)
      if (!names.includes(name))
        this.fail(`tensor '${name}' must be given, ${what}; were ${names.join(", ") || "none"}`);
    const other = names.find((name) => !wanted.has(name));
    if (other !== undefined)
      this.fail(`tensor '${other}' is none of a task's, which are ${[...wanted.keys()].join(", ")}`);
    const twice = names.find((name, at) => names.indexOf(name) !== at);
    if (twice !== undefined) this.fail(`tensor '${twice}' must be given once; was twice`);
  }

  get(name: string): Tensor {
    return this.tensors.find((tensor) => tensor.name === name)!;
  }

  floats(name: string, shape: readonly number[]): Float32Array {
    return floatsOf(this.exact(name, "FP32", shape));
  }

  /** @param shape -1: any extent. */
  exact(name: string, datatype: string, shape: readonly number[]): Tensor {
    const tensor = this.get(name);
    const fits =
      tensor.datatype === datatype &&
      tensor.shape.length === shape.length &&
      shape.every((extent, axis) => extent < 0 || extent === tensor.shape[axis]);
    if (!fits)
      this.fail(
        `tensor '${name}' must be ${datatype} [${shape.map((extent) => (extent < 0 ? "n" : extent)).join(", ")}]; was ${tensor.datatype} [${tensor.shape.join(", ")}]`,
      );
    const problem = byteCountProblem(tensor);
    if (problem !== null) this.fail(problem);
    return tensor;
  }

  fail(message: string): never {
    throw invalid(`task '${this.task}': ${message}`);
  }
}

function readClasses({ classesMax }: ElasticSpec, given: GivenTensors): readonly string[] {
  const tensor = given.exact("classes", "BYTES", [-1]);
  const [count = 0] = tensor.shape;
  if (count < 2 || count > classesMax)
    given.fail(`tensor 'classes' must have 2 to ${classesMax} elements, as '${LOGITS}' has columns; has ${count}`);
  if (tensor.data.byteLength > CLASSES_BYTES_MAX)
    given.fail(`tensor 'classes' must be at most ${CLASSES_BYTES_MAX} bytes; was ${tensor.data.byteLength}`);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const classes = elementsOf(tensor.data, count).map((element, at) => {
    try {
      const text = decoder.decode(element);
      if (text.length >= 1 && text.length <= CLASS_CHARS_MAX) return text;
    } catch {
      // Said below.
    }
    return given.fail(
      `element ${at} of tensor 'classes' must be UTF-8 text of 1 to ${CLASS_CHARS_MAX} characters; has ${element.byteLength} bytes`,
    );
  });
  const places = new Map<string, number>();
  for (const [at, each] of classes.entries()) {
    const before = places.get(each);
    if (before !== undefined)
      given.fail(`elements of tensor 'classes' must differ; ${before} and ${at} are ${describe(each)}`);
    places.set(each, at);
  }
  return classes;
}

function elementsOf(data: Uint8Array, count: number): ReturnType<typeof readBytesElements> {
  try {
    return readBytesElements("classes", data, count);
  } catch (error) {
    return asTaskFault(error);
  }
}

function readProfilingSet(
  { inputs, elastic }: ModelSpec,
  given: GivenTensors,
  classes: number,
): { images: Tensor; labels: Int32Array } {
  const { datatype, shape } = inputs[0]!;
  const images = given.exact("images", datatype, [-1, ...shape.slice(1)]);
  const [count = 0] = images.shape;
  const { imagesMax } = elastic!;
  if (count < IMAGES_MIN || count > imagesMax)
    given.fail(`tensor 'images' must have ${IMAGES_MIN} to ${imagesMax} of them; has ${count}`);
  const tensor = given.exact("labels", "INT64", [count]);
  const wide = new BigInt64Array(ownMemory(tensor.data), 0, count);
  const labels = new Int32Array(count);
  for (const [at, label] of wide.entries()) {
    if (label < 0n || label >= BigInt(classes))
      given.fail(`element ${at} of tensor 'labels' must be in [0, ${classes}); was ${label}`);
    labels[at] = Number(label);
  }
  return { images, labels };
}

const floatsOf = ({ data, shape }: Tensor): Float32Array => new Float32Array(ownMemory(data), 0, elementCount(shape));

/** Memory of its own: tensors are views of a body, which need not be kept. */
function ownMemory(data: Uint8Array): ArrayBuffer {
  return Uint8Array.from(data).buffer;
}

async function checkFinite(
  task: string,
  tensor: string,
  values: Float32Array,
  turn: () => Promise<void>,
): Promise<void> {
  for (let from = 0; from < values.length; from += SLICE) {
    const to = Math.min(values.length, from + SLICE);
    for (let at = from; at < to; at++)
      if (!Number.isFinite(values[at]!))
        throw invalid(`task '${task}': element ${at} of tensor '${tensor}' must be a finite number; was ${values[at]}`);
    if (to < values.length) await turn();
  }
}

function invalid(message: string): ServingError {
  return new ServingError("invalid-argument", message, { reason: "task" });
}
