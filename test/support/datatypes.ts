/** The datatypes that the runtime carries, each with its ways to be written: a second opinion to src/wire. */

export interface Kind {
  readonly datatype: string;
  /** TensorProto.DataType. */
  readonly type: number;
  /** Bytes of an element; 0: BYTES. */
  readonly size: number;
  readonly contents: string | null;
  readonly read?: (view: DataView, at: number) => number | bigint | boolean;
  readonly write?: (view: DataView, at: number, value: never) => void;
}
export const KINDS: readonly Kind[] = [
  {
    datatype: "BOOL",
    type: 9,
    size: 1,
    contents: "boolContents",
    read: (v, at) => v.getUint8(at) === 1,
    write: (v, at, x) => v.setUint8(at, Number(x)),
  },
  {
    datatype: "INT8",
    type: 3,
    size: 1,
    contents: "intContents",
    read: (v, at) => v.getInt8(at),
    write: (v, at, x) => v.setInt8(at, x),
  },
  {
    datatype: "INT16",
    type: 5,
    size: 2,
    contents: "intContents",
    read: (v, at) => v.getInt16(at, true),
    write: (v, at, x) => v.setInt16(at, x, true),
  },
  {
    datatype: "INT32",
    type: 6,
    size: 4,
    contents: "intContents",
    read: (v, at) => v.getInt32(at, true),
    write: (v, at, x) => v.setInt32(at, x, true),
  },
  {
    datatype: "INT64",
    type: 7,
    size: 8,
    contents: "int64Contents",
    read: (v, at) => v.getBigInt64(at, true),
    write: (v, at, x) => v.setBigInt64(at, BigInt(x), true),
  },
  {
    datatype: "UINT8",
    type: 2,
    size: 1,
    contents: "uintContents",
    read: (v, at) => v.getUint8(at),
    write: (v, at, x) => v.setUint8(at, x),
  },
  {
    datatype: "UINT16",
    type: 4,
    size: 2,
    contents: "uintContents",
    read: (v, at) => v.getUint16(at, true),
    write: (v, at, x) => v.setUint16(at, x, true),
  },
  {
    datatype: "UINT32",
    type: 12,
    size: 4,
    contents: "uintContents",
    read: (v, at) => v.getUint32(at, true),
    write: (v, at, x) => v.setUint32(at, x, true),
  },
  {
    datatype: "UINT64",
    type: 13,
    size: 8,
    contents: "uint64Contents",
    read: (v, at) => v.getBigUint64(at, true),
    write: (v, at, x) => v.setBigUint64(at, BigInt(x), true),
  },
  {
    datatype: "FP32",
    type: 1,
    size: 4,
    contents: "fp32Contents",
    read: (v, at) => v.getFloat32(at, true),
    write: (v, at, x) => v.setFloat32(at, Number(x), true),
  },
  {
    datatype: "FP64",
    type: 11,
    size: 8,
    contents: "fp64Contents",
    read: (v, at) => v.getFloat64(at, true),
    write: (v, at, x) => v.setFloat64(at, Number(x), true),
  },
  { datatype: "FP16", type: 10, size: 2, contents: null },
  { datatype: "BYTES", type: 8, size: 0, contents: "bytesContents" },
];
