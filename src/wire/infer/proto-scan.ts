/**
 * What a ModelInferRequest would cost, from its bytes: fields are counted and measured against the table of limits before
 * anything is decoded, since decoding makes an object of each. One pass over tags and lengths; tensors are stepped over.
 */

import { INFER_LIMITS, tooMany, UTF8_BYTES_MAX } from "../infer-limits.js";
import { ServingError } from "../serving-error.js";

export interface RequestScan {
  /** It has raw_input_contents. */
  readonly isRaw: boolean;
  /** Bytes that decoding walks through: all but raw contents, which become views. */
  readonly walkedBytes: number;
}

/** Field numbers of the messages in inference.proto. */
const REQUEST = { model: 1, version: 2, id: 3, parameters: 4, inputs: 5, outputs: 6, raw: 7 } as const;
const INPUT = { name: 1, datatype: 2, shape: 3, parameters: 4, contents: 5 } as const;
const OUTPUT = { name: 1, parameters: 2 } as const;

/** Fields of one message beyond those counted: single ones may be repeated (the last counts), unknown ones skipped. */
const OTHER_FIELDS_MAX = 64;
const NAME_BYTES_MAX = INFER_LIMITS.nameLength * UTF8_BYTES_MAX;
const ID_BYTES_MAX = INFER_LIMITS.idLength * UTF8_BYTES_MAX;
/** A map's entry: key, value, and the tags and lengths of both and of the value inside its message. */
const PARAMETER_BYTES_MAX = NAME_BYTES_MAX + INFER_LIMITS.parameterLength * UTF8_BYTES_MAX + 32;
const VARINT_BYTES_MAX = 10;

const LENGTH_DELIMITED = 2;

/**
 * @throws ServingError invalid-argument: over a limit, both raw and typed contents, or bytes that are no message. What
 *   passes may still be refused by the decoder.
 */
export function scanInferRequest(bytes: Uint8Array): RequestScan {
  const fields = new Fields(bytes, 0, bytes.byteLength);
  const input = new Fields(bytes, 0, 0);
  const counts = { inputs: 0, outputs: 0, parameters: 0, raw: 0, others: 0 };
  let rawBytes = 0;
  /** Index of the first input with typed contents. */
  let typed = -1;
  while (fields.next()) {
    const isMessage = fields.wireType === LENGTH_DELIMITED;
    if (isMessage && fields.number === REQUEST.raw) {
      rawBytes += fields.length;
      if (++counts.raw > INFER_LIMITS.inputs)
        throw tooMany("raw_input_contents", INFER_LIMITS.inputs, "entries", "more");
    } else if (isMessage && fields.number === REQUEST.inputs) {
      const index = counts.inputs;
      if (++counts.inputs > INFER_LIMITS.inputs) throw tooMany("inputs", INFER_LIMITS.inputs, "tensors", "more");
      if (scanInput(input.of(fields), index) && typed < 0) typed = index;
    } else if (isMessage && fields.number === REQUEST.outputs) {
      const index = counts.outputs;
      if (++counts.outputs > INFER_LIMITS.outputs) throw tooMany("outputs", INFER_LIMITS.outputs, "tensors", "more");
      scanOutput(input.of(fields), index);
    } else if (isMessage && fields.number === REQUEST.parameters) {
      counts.parameters = countParameter(fields, counts.parameters, "the request");
    } else {
      if (++counts.others > OTHER_FIELDS_MAX) throw tooMany("the request", OTHER_FIELDS_MAX, "other fields", "more");
      if (fields.number === REQUEST.model) checkBytes(fields, NAME_BYTES_MAX, "model_name");
      else if (fields.number === REQUEST.version) checkBytes(fields, NAME_BYTES_MAX, "model_version");
      else if (fields.number === REQUEST.id) checkBytes(fields, ID_BYTES_MAX, "id");
    }
  }
  const isRaw = counts.raw > 0;
  if (isRaw && typed >= 0)
    throw new ServingError(
      "invalid-argument",
      `inputs[${typed}] must have either raw_input_contents or contents, got both`,
    );
  return { isRaw, walkedBytes: bytes.byteLength - rawBytes };
}

/** @returns whether it has typed contents. */
function scanInput(fields: Fields, index: number): boolean {
  let parameters = 0;
  let extents = 0;
  let others = 0;
  let isTyped = false;
  while (fields.next()) {
    const isMessage = fields.wireType === LENGTH_DELIMITED;
    if (fields.number === INPUT.shape) {
      // Packed, or one at a time as old encoders do. Packed ones are counted by the shortest encoding.
      extents += isMessage ? Math.ceil(fields.length / VARINT_BYTES_MAX) : 1;
      if (extents > INFER_LIMITS.rank)
        throw tooMany(`shape of inputs[${index}]`, INFER_LIMITS.rank, "dimensions", "more");
    } else if (isMessage && fields.number === INPUT.parameters) {
      parameters = countParameter(fields, parameters, `inputs[${index}]`);
    } else {
      if (++others > OTHER_FIELDS_MAX) throw tooMany(`inputs[${index}]`, OTHER_FIELDS_MAX, "other fields", "more");
      if (fields.number === INPUT.contents) isTyped ||= fields.length > 0;
      else if (fields.number === INPUT.name) checkBytes(fields, NAME_BYTES_MAX, `name of inputs[${index}]`);
      else if (fields.number === INPUT.datatype) checkBytes(fields, NAME_BYTES_MAX, `datatype of inputs[${index}]`);
    }
  }
  return isTyped;
}

/** What each value in a field of InferTensorContents counts; fixed sizes in bytes, 0 for varints. */
const CONTENTS: readonly ({ readonly size: number; readonly weight: number } | undefined)[] = [
  undefined,
  { size: 0, weight: 1 }, // bool_contents
  { size: 0, weight: 1 }, // int_contents
  { size: 0, weight: 2 }, // int64_contents
  { size: 0, weight: 1 }, // uint_contents
  { size: 0, weight: 2 }, // uint64_contents
  { size: 4, weight: 1 }, // fp32_contents
  { size: 8, weight: 1 }, // fp64_contents
];
const BYTES_CONTENTS = { number: 8, weight: 16 } as const;

/**
 * Counts the values of typed contents: as long as the bytes, so for the thread that decodes them. The bytes have passed
 * `scanInferRequest`. @throws ServingError invalid-argument: more than the table allows.
 */
export function checkTypedElements(bytes: Uint8Array): void {
  const request = new Fields(bytes, 0, bytes.byteLength);
  const input = new Fields(bytes, 0, 0);
  const contents = new Fields(bytes, 0, 0);
  let count = 0;
  const add = (values: number): void => {
    count += values;
    if (count > INFER_LIMITS.typedElements)
      throw tooMany("typed contents of the request", INFER_LIMITS.typedElements, "values", "more");
  };
  while (request.next()) {
    if (request.number !== REQUEST.inputs || request.wireType !== LENGTH_DELIMITED) continue;
    input.of(request);
    while (input.next()) {
      if (input.number !== INPUT.contents || input.wireType !== LENGTH_DELIMITED) continue;
      contents.of(input);
      while (contents.next()) {
        if (contents.number === BYTES_CONTENTS.number) add(BYTES_CONTENTS.weight);
        const field = CONTENTS[contents.number];
        if (field === undefined) continue;
        const isPacked = contents.wireType === LENGTH_DELIMITED;
        const values = !isPacked ? 1 : field.size > 0 ? contents.length / field.size : contents.varints();
        add(values * field.weight);
      }
    }
  }
}

function scanOutput(fields: Fields, index: number): void {
  let parameters = 0;
  let others = 0;
  while (fields.next()) {
    if (fields.wireType === LENGTH_DELIMITED && fields.number === OUTPUT.parameters) {
      parameters = countParameter(fields, parameters, `outputs[${index}]`);
    } else {
      if (++others > OTHER_FIELDS_MAX) throw tooMany(`outputs[${index}]`, OTHER_FIELDS_MAX, "other fields", "more");
      if (fields.number === OUTPUT.name) checkBytes(fields, NAME_BYTES_MAX, `name of outputs[${index}]`);
    }
  }
}

function countParameter(fields: Fields, before: number, where: string): number {
  if (before >= INFER_LIMITS.parameters)
    throw tooMany(`parameters of ${where}`, INFER_LIMITS.parameters, "members", "more");
  checkBytes(fields, PARAMETER_BYTES_MAX, `a parameter of ${where}`);
  return before + 1;
}

function checkBytes(fields: Fields, max: number, what: string): void {
  if (fields.length > max) throw tooMany(what, max, "bytes", fields.length);
}

/** The fields of a message, one after the other, without looking into them. */
class Fields {
  number = 0;
  wireType = 0;
  /** Of the value: its bytes lie in [start, start + length). */
  length = 0;
  private start = 0;
  private offset: number;
  private end: number;

  constructor(
    private readonly bytes: Uint8Array,
    start: number,
    end: number,
  ) {
    this.offset = start;
    this.end = end;
  }

  /** Looks into the value that `outer` is at. */
  of(outer: Fields): this {
    this.offset = outer.start;
    this.end = outer.start + outer.length;
    return this;
  }

  /** @returns false at the end. */
  next(): boolean {
    if (this.offset >= this.end) return false;
    const tag = this.varint();
    this.number = Math.floor(tag / 8);
    this.wireType = tag % 8;
    switch (this.wireType) {
      case 0:
        this.start = this.offset;
        this.varint();
        this.length = this.offset - this.start;
        break;
      case 1:
        this.take(8);
        break;
      case LENGTH_DELIMITED:
        this.take(this.varint());
        break;
      case 5:
        this.take(4);
        break;
      default:
        throw malformed(`field ${this.number} has wire type ${this.wireType}`);
    }
    if (this.number === 0) throw malformed("a field has number 0");
    return true;
  }

  /** How many of them the value holds. */
  varints(): number {
    let count = 0;
    for (let at = this.start; at < this.start + this.length; at++) if (this.bytes[at]! < 0x80) count++;
    return count;
  }

  private take(length: number): void {
    if (length > this.end - this.offset)
      throw malformed(`field ${this.number} says ${length} bytes where ${this.end - this.offset} are left`);
    this.start = this.offset;
    this.length = length;
    this.offset += length;
  }

  private varint(): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < VARINT_BYTES_MAX && this.offset < this.end; i++) {
      const byte = this.bytes[this.offset++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    throw malformed("a number does not end");
  }
}

const malformed = (problem: string): ServingError =>
  new ServingError("invalid-argument", `the message must be an inference.ModelInferRequest: ${problem}`);
