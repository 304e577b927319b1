/**
 * What an ONNX file says about its inputs and outputs, read from the protobuf itself: the server process starts no
 * model runtime, and weights are skipped, not read, whatever their size.
 *
 * Source of the field numbers: onnx.proto (ModelProto 1 ir_version, 7 graph, 8 opset_import; GraphProto 5 initializer,
 * 11 input, 12 output, 15 sparse_initializer).
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { ServingError } from "../wire/serving-error.js";

export interface OnnxValue {
  readonly name: string;
  /** Open Inference Protocol datatype. */
  readonly datatype: string;
  /** A number, or the name of a symbolic dimension ("" = nameless). null: the file does not say the rank. */
  readonly dims: readonly (number | string)[] | null;
}

export interface OnnxHeader {
  readonly irVersion: number;
  /** Of the default operator set. */
  readonly opset: number;
  /** Without initializers, which old files list as inputs as well. */
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
  /** Files of weights that lie beside it, as the file names them. */
  readonly weightFiles: readonly string[];
}

const DATATYPES: Readonly<Record<number, string>> = {
  1: "FP32",
  2: "UINT8",
  3: "INT8",
  4: "UINT16",
  5: "INT16",
  6: "INT32",
  7: "INT64",
  8: "BYTES",
  9: "BOOL",
  10: "FP16",
  11: "FP64",
  12: "UINT32",
  13: "UINT64",
  16: "BF16",
};

const WINDOW_BYTES = 64 * 1024;
const NAME_BYTES_MAX = 64 * 1024;
const VALUES_MAX = 4096;

/** @throws ServingError invalid-argument naming the file, the byte and what is wrong. */
export function readOnnxHeader(file: string): OnnxHeader {
  let fd: number;
  try {
    fd = openSync(file, "r");
  } catch (cause) {
    throw new ServingError("invalid-argument", `${file}: cannot be opened: ${(cause as Error).message}`, { cause });
  }
  try {
    return readModel(new ProtoFile(fd, file));
  } finally {
    closeSync(fd);
  }
}

function readModel(proto: ProtoFile): OnnxHeader {
  let irVersion = 0;
  let opset = 0;
  const graphs: Span[] = [];
  proto.each({ from: 0, to: proto.size }, (field) => {
    if (field.number === 1) irVersion = field.value;
    else if (field.number === 7) graphs.push(field.span);
    else if (field.number === 8) {
      let domain = "";
      let version = 0;
      proto.each(field.span, (part) => {
        if (part.number === 1) domain = proto.text(part.span);
        else if (part.number === 2) version = part.value;
      });
      if (domain === "" || domain === "ai.onnx") opset = version;
    }
  });
  const graph = graphs[0];
  if (graph === undefined) proto.fail(0, "is not an ONNX model: it has no graph");
  const initializers = new Set<string>();
  const weightFiles = new Set<string>();
  const inputs: OnnxValue[] = [];
  const outputs: OnnxValue[] = [];
  proto.each(graph, (field) => {
    if (field.number === 5) initializers.add(readInitializer(proto, field.span, weightFiles));
    else if (field.number === 15)
      proto.each(field.span, (part) => part.number === 1 && initializers.add(nameOf(proto, part.span, 8)));
    else if (field.number === 11 || field.number === 12) {
      const values = field.number === 11 ? inputs : outputs;
      if (values.length >= VALUES_MAX) proto.fail(field.span.from, `has more than ${VALUES_MAX} inputs or outputs`);
      values.push(readValue(proto, field.span));
    }
  });
  const real = inputs.filter((input) => !initializers.has(input.name));
  if (outputs.length === 0) proto.fail(graph.from, "is not an ONNX model: its graph has no output");
  return { irVersion, opset, inputs: real, outputs, weightFiles: [...weightFiles] };
}

function nameOf(proto: ProtoFile, span: Span, field: number): string {
  let name = "";
  proto.each(span, (part) => {
    if (part.number === field) name = proto.text(part.span);
  });
  return name;
}

/** TensorProto: 8 name, 13 external_data { 1 key, 2 value }. @returns its name. */
function readInitializer(proto: ProtoFile, span: Span, weightFiles: Set<string>): string {
  let name = "";
  proto.each(span, (field) => {
    if (field.number === 8) name = proto.text(field.span);
    if (field.number !== 13) return;
    let key = "";
    let value = "";
    proto.each(field.span, (part) => {
      if (part.number === 1) key = proto.text(part.span);
      else if (part.number === 2) value = proto.text(part.span);
    });
    if (key === "location") weightFiles.add(value);
  });
  return name;
}

/** ValueInfoProto: 1 name, 2 type { 1 tensor_type { 1 elem_type, 2 shape { 1 dim { 1 value, 2 param } } } }. */
function readValue(proto: ProtoFile, span: Span): OnnxValue {
  let name = "";
  let code = 0;
  let dims: (number | string)[] | null = null;
  proto.each(span, (field) => {
    if (field.number === 1) name = proto.text(field.span);
    else if (field.number === 2)
      proto.each(field.span, (type) => {
        if (type.number !== 1) proto.fail(type.span.from, `has '${name}', which is not a tensor`);
        proto.each(type.span, (tensor) => {
          if (tensor.number === 1) code = tensor.value;
          else if (tensor.number === 2) dims = readDims(proto, tensor.span);
        });
      });
  });
  const datatype = DATATYPES[code];
  if (datatype === undefined)
    proto.fail(span.from, `has '${name}' of element type ${code}, which the protocol cannot carry`);
  return { name, datatype, dims };
}

function readDims(proto: ProtoFile, span: Span): (number | string)[] {
  const dims: (number | string)[] = [];
  proto.each(span, (dim) => {
    let extent: number | string = "";
    proto.each(dim.span, (part) => {
      if (part.number === 1) extent = part.value;
      else if (part.number === 2) extent = proto.text(part.span);
    });
    dims.push(extent);
  });
  return dims;
}

interface Span {
  readonly from: number;
  readonly to: number;
}
interface Field {
  readonly number: number;
  /** Of a varint; 0 otherwise. */
  readonly value: number;
  /** Content of a length-delimited field; empty otherwise. */
  readonly span: Span;
}

/** Protobuf over a file through a moving window: what is skipped is not read. */
class ProtoFile {
  readonly size: number;
  private readonly window = Buffer.allocUnsafe(WINDOW_BYTES);
  private windowAt = 0;
  private windowBytes = 0;

  constructor(
    private readonly fd: number,
    private readonly file: string,
  ) {
    this.size = fstatSync(fd).size;
  }

  each(span: Span, visit: (field: Field) => void): void {
    let at = span.from;
    while (at < span.to) {
      const [key, keyEnd] = this.varint(at, span.to);
      const number = Math.floor(key / 8);
      if (number === 0) this.fail(at, "is not a protobuf: field number 0");
      switch (key % 8) {
        case 0: {
          const [value, end] = this.varint(keyEnd, span.to);
          visit({ number, value, span: { from: keyEnd, to: keyEnd } });
          at = end;
          break;
        }
        case 1:
          at = this.skip(keyEnd, 8, span.to);
          break;
        case 2: {
          const [length, from] = this.varint(keyEnd, span.to);
          at = this.skip(from, length, span.to);
          visit({ number, value: 0, span: { from, to: at } });
          break;
        }
        case 5:
          at = this.skip(keyEnd, 4, span.to);
          break;
        default:
          this.fail(at, `is not a protobuf: wire type ${key % 8}`);
      }
    }
  }

  text(span: Span): string {
    const length = span.to - span.from;
    if (length > NAME_BYTES_MAX) this.fail(span.from, `has a name of ${length} bytes; at most ${NAME_BYTES_MAX}`);
    const bytes = Buffer.alloc(length);
    for (let i = 0; i < length; i++) bytes[i] = this.byte(span.from + i);
    return bytes.toString("utf8");
  }

  fail(at: number, problem: string): never {
    throw new ServingError("invalid-argument", `${this.file} ${problem} (at byte ${at} of ${this.size})`);
  }

  private skip(from: number, length: number, end: number): number {
    if (from + length > end) this.fail(from, `ends early: a field of ${length} bytes goes beyond byte ${end}`);
    return from + length;
  }

  /** 64-bit values beyond 2^53 lose their low bits; none that matters here is. Negative ones are read as -1 - ~x. */
  private varint(from: number, end: number): [number, number] {
    let value = 0;
    let scale = 1;
    for (let at = from; at < end && at < from + 10; at++) {
      const byte = this.byte(at);
      value += (byte & 0x7f) * scale;
      scale *= 128;
      if (byte < 0x80) return [value >= 2 ** 63 ? value - 2 ** 64 : value, at + 1];
    }
    return this.fail(from, "is not a protobuf: a number does not end");
  }

  private byte(at: number): number {
    if (at < this.windowAt || at >= this.windowAt + this.windowBytes) {
      this.windowAt = at;
      this.windowBytes = readSync(this.fd, this.window, 0, WINDOW_BYTES, at);
      if (this.windowBytes === 0) this.fail(at, "ends early");
    }
    return this.window[at - this.windowAt]!;
  }
}
