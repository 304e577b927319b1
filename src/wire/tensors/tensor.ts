/**
 * A tensor as it travels: bytes in the Open Inference Protocol's binary layout (little-endian, row-major).
 *
 * BYTES elements are a u32 little-endian length and that many bytes, in row-major order.
 */
export const DATATYPES = {
  BOOL: 1,
  UINT8: 1,
  INT8: 1,
  UINT16: 2,
  INT16: 2,
  UINT32: 4,
  INT32: 4,
  UINT64: 8,
  INT64: 8,
  FP16: 2,
  BF16: 2,
  FP32: 4,
  FP64: 8,
  /** Variable: each element carries its length. */
  BYTES: 0,
} as const;
export type Datatype = keyof typeof DATATYPES;

export interface Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  /** Batch dimension included where the model batches. */
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

/** What is wrong with the number of bytes of a tensor, or null. BYTES are not looked into. */
export function byteCountProblem(tensor: Tensor): string | null {
  const bytes = elementCount(tensor.shape) * DATATYPES[tensor.datatype];
  if (tensor.datatype === "BYTES" || tensor.data.byteLength === bytes) return null;
  return `tensor '${tensor.name}' of shape [${tensor.shape}] and datatype ${tensor.datatype} must have ${bytes} bytes; has ${tensor.data.byteLength}`;
}

/** Number of elements of a shape; 1 for a scalar. */
export function elementCount(shape: readonly number[]): number {
  let count = 1;
  for (const extent of shape) count *= extent;
  return count;
}
