/** Makes the inputs that load is sent with, once, before the run: nothing is made or encoded per request. */
import type { Parameters, ParameterValue } from "../../wire/infer-parameters.js";
import { ServingError } from "../../wire/serving-error.js";
import { DATATYPES, type Datatype, elementCount, type Tensor } from "../../wire/tensors/tensor.js";
import type { ModelMetadata, TensorMetadata } from "./metadata.js";
import { randomStream } from "./random.js";

/** The inputs of one request. */
export interface Sample {
  readonly tensors: readonly Tensor[];
  readonly parameters: Parameters;
}

export interface InputOptions {
  readonly data: "random" | "zero";
  /** Input name -> full shape, batch axis included. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
  /** Input name -> lowest and highest random integer; "" for all others. */
  readonly ranges: ReadonlyMap<string, IntegerRange>;
  /** Extents of variable axes other than the first; null: none given. */
  readonly lengths: LengthSource | null;
  /** Distinct samples, cycled through in a seeded order; fewer when they are large. */
  readonly samples: number;
  readonly seed: number;
  /** Which target of the run it is for: a seed draws the same whatever the target's address, and for each target its own. */
  readonly target: number;
}

export type IntegerRange = readonly [low: number, high: number];

/** Draws an extent from a number in [0, 1). */
export type LengthSource = (uniform: number) => number;

/** All samples of a target together stay below this; at least one is kept. */
const SAMPLE_BYTES_MAX = 128 * 2 ** 20;
/** Within the vocabulary of any tokenizer. */
const RANDOM_INTEGERS: IntegerRange = [0, 999];

export function makeSamples(where: string, metadata: ModelMetadata, options: InputOptions): Sample[] {
  const known = new Set(metadata.inputs.map((input) => input.name));
  for (const [option, given] of [
    ["--shape", options.shapes],
    ["--range", options.ranges],
  ] as const)
    for (const name of given.keys())
      if (name !== "" && !known.has(name))
        throw new ServingError(
          "invalid-argument",
          `${option} ${name}: ${where} has no such input; it has ${[...known].join(", ")}`,
        );
  const random = randomStream(options.seed, `inputs/${options.target}`);
  const samples: Sample[] = [];
  let bytes = 0;
  // Without variable lengths all zero samples would be equal.
  const wanted = options.data === "zero" && options.lengths === null ? 1 : options.samples;
  while (samples.length < wanted) {
    // One length per request: all variable axes of a request (ids, mask) go together.
    const length = options.lengths?.(random()) ?? null;
    const tensors = metadata.inputs.map((input) => makeTensor(where, input, options, length, random));
    bytes += tensors.reduce((all, tensor) => all + tensor.data.byteLength, 0);
    if (samples.length > 0 && bytes > SAMPLE_BYTES_MAX) break;
    samples.push({ tensors, parameters: {} });
  }
  return samples;
}

function makeTensor(
  where: string,
  input: TensorMetadata,
  options: InputOptions,
  length: number | null,
  random: () => number,
): Tensor {
  if (!(input.datatype in DATATYPES))
    throw new ServingError("unavailable", `${where}: input '${input.name}' has unknown datatype '${input.datatype}'`);
  const datatype = input.datatype as Datatype;
  const shape = options.shapes.get(input.name) ?? shapeOf(where, input, length);
  const count = elementCount(shape);
  const range = options.ranges.get(input.name) ?? options.ranges.get("") ?? null;
  if (range !== null) checkRange(where, input.name, datatype, range, options.ranges.has(input.name));
  return {
    name: input.name,
    datatype,
    shape,
    data: makeData(input.name, datatype, count, options.data, range, random),
  };
}

/** A first axis of -1 is taken as the batch axis: one row. */
function shapeOf(where: string, input: TensorMetadata, length: number | null): number[] {
  return input.shape.map((extent, axis) => {
    if (extent !== -1) return extent;
    if (axis === 0) return 1;
    if (length !== null) return length;
    throw new ServingError(
      "invalid-argument",
      `${where}: input '${input.name}' has shape [${input.shape.join(",")}]: give axis ${axis} an extent with ` +
        `--shape ${input.name}:${input.shape.map((e, a) => (e === -1 ? (a === 0 ? 1 : 16) : e)).join(",")} or --lengths`,
    );
  });
}

/**
 * Random data in ranges that models accept: floats in [0, 1), integers in [0, 1000), booleans, 8-letter strings.
 * By the names they have everywhere, attention masks are all ones and token types all zeros.
 */
function makeData(
  name: string,
  datatype: Datatype,
  count: number,
  data: "random" | "zero",
  range: IntegerRange | null,
  random: () => number,
): Uint8Array {
  if (datatype === "BYTES") {
    const bytes = Buffer.alloc(count * 12);
    for (let i = 0; i < count; i++) {
      bytes.writeUInt32LE(8, i * 12);
      for (let letter = 0; letter < 8; letter++)
        bytes[i * 12 + 4 + letter] = data === "zero" ? 32 : 97 + Math.floor(random() * 26);
    }
    return bytes;
  }
  const [low, high] = range ?? rangeOf(datatype);
  const drawn = (): number => low + Math.floor(random() * (high - low + 1));
  const integer =
    range !== null && data === "random"
      ? drawn
      : /mask/i.test(name)
        ? () => 1
        : data === "zero" || /type_ids/i.test(name)
          ? () => 0
          : drawn;
  const real = data === "zero" ? () => 0 : random;
  const bytes = new Uint8Array(count * DATATYPES[datatype]);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < count; i++) {
    switch (datatype) {
      case "BOOL":
        bytes[i] = integer() & 1;
        break;
      case "UINT8":
      case "INT8":
        bytes[i] = integer();
        break;
      case "UINT16":
      case "INT16":
        view.setUint16(i * 2, integer(), true);
        break;
      case "UINT32":
      case "INT32":
        view.setUint32(i * 4, integer(), true);
        break;
      case "UINT64":
      case "INT64":
        view.setBigInt64(i * 8, BigInt(integer()), true);
        break;
      case "BF16":
        view.setUint16(i * 2, upperHalf(real()), true);
        break;
      case "FP16":
        view.setUint16(i * 2, halfOf(real()), true);
        break;
      case "FP32":
        view.setFloat32(i * 4, real(), true);
        break;
      case "FP64":
        view.setFloat64(i * 8, real(), true);
        break;
    }
  }
  return bytes;
}

const rangeOf = (datatype: Datatype): IntegerRange =>
  datatype === "INT8" || datatype === "UINT8" ? [0, 127] : RANDOM_INTEGERS;

/** @param isNamed the range was given for this input: then it must be one of integers. */
function checkRange(where: string, name: string, datatype: Datatype, range: IntegerRange, isNamed: boolean): void {
  const match = /^(U?)INT(8|16|32|64)$/.exec(datatype);
  if (match === null) {
    if (isNamed)
      throw new ServingError(
        "invalid-argument",
        `--range ${name}: ${where}: must be an input of integers; is ${datatype}`,
      );
    return;
  }
  const bits = Math.min(Number(match[2]), 53);
  const [low, high] = match[1] === "U" ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1];
  if (range[0] < low || range[1] > high)
    throw new ServingError(
      "invalid-argument",
      `--range ${name}: ${where}: must be within [${low}, ${high}] of ${datatype}; was ${range[0]}:${range[1]}`,
    );
}

const scratch = new DataView(new ArrayBuffer(4));

/** BF16 is the upper half of an FP32. */
function upperHalf(value: number): number {
  scratch.setFloat32(0, value);
  return scratch.getUint16(0);
}

/** FP16 of a number in [0, 1), cut off to 2^-10 (a multiple of it in [0, 1) is exact: exponent bias 15, 10 bits). */
function halfOf(value: number): number {
  const units = Math.floor(value * 1024);
  if (units === 0) return 0;
  const exponent = Math.floor(Math.log2(units)); // value = 2^(exponent - 10) * 1.fraction
  const fraction = Math.round((units / 2 ** exponent - 1) * 1024);
  return ((exponent - 10 + 15) << 10) | fraction;
}

/**
 * `uniform:LOW:HIGH`, a whole number, or the text of a file with one length a line (first column of a CSV, header allowed).
 *
 * @throws ServingError invalid-argument naming bound and value.
 */
export function parseLengths(spec: string, readText: (file: string) => string): LengthSource {
  const bad = (what: string): never => {
    throw new ServingError("invalid-argument", `--lengths ${spec}: ${what}`);
  };
  const isLength = (value: number) => Number.isInteger(value) && value >= 1 && value <= 2 ** 24;
  if (/^\d+$/.test(spec)) {
    const length = Number(spec);
    if (!isLength(length)) bad("a length must be in [1, 16777216]");
    return () => length;
  }
  if (spec.startsWith("uniform:")) {
    const [, low, high] = spec.split(":").map(Number);
    if (!isLength(low!) || !isLength(high!) || low! > high!)
      bad("must be uniform:LOW:HIGH with 1 <= LOW <= HIGH <= 16777216");
    return (uniform) => low! + Math.floor(uniform * (high! - low! + 1));
  }
  const lengths: number[] = [];
  readText(spec)
    .split(/\r?\n/)
    .forEach((line, index) => {
      const cell = line.split(",")[0]!.trim();
      if (cell === "" || (index === 0 && Number.isNaN(Number(cell)))) return;
      if (!isLength(Number(cell)))
        bad(`line ${index + 1}: a length must be a whole number in [1, 16777216]; was '${cell.slice(0, 40)}'`);
      lengths.push(Number(cell));
    });
  if (lengths.length === 0) bad("holds no lengths");
  return (uniform) => lengths[Math.floor(uniform * lengths.length)]!;
}

/** `NAME:d,d,...`; the name may hold colons. @throws ServingError invalid-argument naming the value. */
export function parseShape(spec: string): [string, number[]] {
  const match = /^(.+):(\d+(?:,\d+)*)$/.exec(spec);
  const shape = match === null ? [] : match[2]!.split(",").map(Number);
  if (match === null || elementCount(shape) > 2 ** 28)
    throw new ServingError(
      "invalid-argument",
      `--shape must be NAME:EXTENT,EXTENT,... of at most 2^28 elements; was '${spec}'`,
    );
  return [match[1]!, shape];
}

/** `NAME=LOW:HIGH`, or `LOW:HIGH` for all inputs of integers (name ""). @throws ServingError invalid-argument naming the value. */
export function parseRange(spec: string): [string, IntegerRange] {
  const match = /^(?:(.+)=)?(-?\d+):(-?\d+)$/.exec(spec);
  const [low, high] = [Number(match?.[2]), Number(match?.[3])];
  if (!Number.isSafeInteger(low) || !Number.isSafeInteger(high) || low > high)
    throw new ServingError(
      "invalid-argument",
      `--range must be NAME=LOW:HIGH or LOW:HIGH, whole numbers with LOW <= HIGH; was '${spec}'`,
    );
  return [match![1] ?? "", [low, high]];
}

/**
 * `NAME=VALUE`, a request parameter: `true` and `false` are booleans, what JSON has as a number is one, `"..."` is the
 * text within, all else is text as it stands.
 *
 * @throws ServingError invalid-argument naming the value.
 */
export function parseParameter(spec: string): [string, ParameterValue] {
  const at = spec.indexOf("=");
  if (at < 1) throw new ServingError("invalid-argument", `--parameter must be NAME=VALUE; was '${spec}'`);
  const value = spec.slice(at + 1);
  return [spec.slice(0, at), SCALAR.test(value) ? scalarOf(value) : value];
}

const SCALAR = /^(?:true|false|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|".*")$/;

function scalarOf(value: string): ParameterValue {
  try {
    const parsed = JSON.parse(value) as ParameterValue;
    return parsed === Number.POSITIVE_INFINITY || parsed === Number.NEGATIVE_INFINITY ? value : parsed;
  } catch {
    return value; // Quotes around what is no JSON text.
  }
}
