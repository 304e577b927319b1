/** Shape and numbers of the elastic vision transformer's backbone, and how they lie in its ONNX file. */
import { normalOf, stream } from "../../../sim/random.js";

export interface ElasticGeometry {
  /** Pixels of an image's edge; a token stands for 4 x 4 of them. */
  readonly side: number;
  /** Numbers of a token. */
  readonly width: number;
  readonly heads: number;
  readonly layers: number;
  /** Channels between the stem's convolutions. */
  readonly stem: readonly [number, number];
}
/** By name; dense matrices lie as [in, out]. */
export type ElasticWeights = ReadonlyMap<string, Float32Array>;

export const ELASTIC_VIT: ElasticGeometry = { side: 32, width: 128, heads: 4, layers: 12, stem: [32, 64] };

const SEED = 12;
/** Of drawn matrices, as of those that training starts from. */
const DEVIATION = 0.06;

export const tokensOf = ({ side }: ElasticGeometry): number => (side / 4) ** 2 + 1;

/**
 * Names and dimensions in the order of the files. `place` is added to the tokens; its first row has the class token in it.
 * Queries come scaled by 1/sqrt(width / heads).
 */
export function weightShapes(geometry: ElasticGeometry): readonly (readonly [name: string, dims: readonly number[]])[] {
  const { width, layers, stem } = geometry;
  const layer = (at: number): [string, number[]][] => [
    [`layer${at}.norm1.scale`, [width]],
    [`layer${at}.norm1.bias`, [width]],
    [`layer${at}.qkv.weight`, [width, 3 * width]],
    [`layer${at}.qkv.bias`, [3 * width]],
    [`layer${at}.proj.weight`, [width, width]],
    [`layer${at}.proj.bias`, [width]],
    [`layer${at}.norm2.scale`, [width]],
    [`layer${at}.norm2.bias`, [width]],
    [`layer${at}.up.weight`, [width, 4 * width]],
    [`layer${at}.up.bias`, [4 * width]],
    [`layer${at}.down.weight`, [4 * width, width]],
    [`layer${at}.down.bias`, [width]],
  ];
  return [
    ["stem1.weight", [stem[0], 1, 3, 3]],
    ["stem1.bias", [stem[0]]],
    ["stem2.weight", [stem[1], stem[0], 3, 3]],
    ["stem2.bias", [stem[1]]],
    ["stem3.weight", [width, stem[1], 1, 1]],
    ["stem3.bias", [width]],
    ["place", [tokensOf(geometry), width]],
    ...Array.from({ length: layers }, (_, at) => layer(at)).flat(),
    ["norm.scale", [width]],
    ["norm.bias", [width]],
  ];
}

/** Of an untrained backbone; the same for the same seed. */
export function drawnWeights(geometry: ElasticGeometry): ElasticWeights {
  return new Map(
    weightShapes(geometry).map(([name, dims]) => {
      const random = stream(SEED, `elastic/${name}`);
      const mean = name.endsWith(".scale") ? 1 : 0;
      const values = Float32Array.from({ length: sizeOf(dims) }, () => mean + DEVIATION * normalOf(random(), random()));
      return [name, values];
    }),
  );
}

/**
 * From training's file: float32, little-endian, one weight after the other in the order of weightShapes.
 *
 * @throws if its length is another.
 */
export function weightsFrom(file: Uint8Array, geometry: ElasticGeometry): ElasticWeights {
  const shapes = weightShapes(geometry);
  const expected = 4 * shapes.reduce((sum, [, dims]) => sum + sizeOf(dims), 0);
  if (file.length !== expected) throw new Error(`weights: must be ${expected} bytes; was ${file.length}`);
  let at = 0;
  return new Map(
    shapes.map(([name, dims]) => {
      const end = at + 4 * sizeOf(dims);
      const values = floats(file.subarray(at, end));
      at = end;
      return [name, values];
    }),
  );
}

/**
 * Back from a model's file: its initializers of floats that are weights of this shape.
 *
 * @throws if one is missing or of another length.
 */
export function weightsInModel(model: Uint8Array, geometry: ElasticGeometry): ElasticWeights {
  const [graph] = fieldsOf(model, 7);
  const byName = new Map(
    fieldsOf(graph ?? new Uint8Array(), 5).map((initializer) => {
      const [name] = fieldsOf(initializer, 8);
      return [Buffer.from(name ?? []).toString(), fieldsOf(initializer, 9)[0]];
    }),
  );
  return new Map(
    weightShapes(geometry).map(([name, dims]) => {
      const raw = byName.get(name);
      if (raw?.length !== 4 * sizeOf(dims))
        throw new Error(`initializer ${name}: must be ${4 * sizeOf(dims)} bytes; was ${raw?.length ?? "missing"}`);
      return [name, floats(raw)];
    }),
  );
}

export const sizeOf = (dims: readonly number[]): number => dims.reduce((product, dim) => product * dim, 1);

/** Copied: where the bytes lie may be no multiple of four. */
export const floats = (bytes: Uint8Array): Float32Array =>
  new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer);

/** Of a protobuf message: the contents of a field whose wire type is "bytes", as often as it is there. */
function fieldsOf(message: Uint8Array, wanted: number): Uint8Array[] {
  const found: Uint8Array[] = [];
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = message[at++]!;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.length) {
    const key = varint();
    const wire = key & 7;
    if (wire !== 2) {
      if (wire !== 0) throw new Error(`model: wire type must be 0 or 2; was ${wire}`);
      varint();
      continue;
    }
    const length = varint();
    if (key >>> 3 === wanted) found.push(message.subarray(at, at + length));
    at += length;
  }
  return found;
}
