/** Copying boxes between row-major arrays: the arithmetic under concatenating, padding and cutting back. */

/** Called with element offsets: `count` elements go from `from` of the source to `to` of the destination. */
export type CopyRun = (from: number, to: number, count: number) => void;

export interface Box {
  readonly sourceShape: readonly number[];
  readonly sourceAt: readonly number[];
  readonly targetShape: readonly number[];
  readonly targetAt: readonly number[];
  /** Extents of the box that is copied; it must fit both shapes at its offsets. */
  readonly extents: readonly number[];
}

/** Row-major strides in elements. */
function strides(shape: readonly number[]): number[] {
  const out = new Array<number>(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    out[axis] = step;
    step *= shape[axis]!;
  }
  return out;
}

/** Walks the longest contiguous runs of a box, in source order. */
export function forEachRun(box: Box, run: CopyRun): void {
  const rank = box.extents.length;
  if (box.extents.some((extent) => extent === 0)) return;
  const sourceStride = strides(box.sourceShape);
  const targetStride = strides(box.targetShape);
  // Axes from `inner` on are taken whole in both arrays, so that everything from `inner - 1` on is one run.
  let inner = rank;
  while (inner > 0 && isWhole(box, inner - 1)) inner--;
  const runAxis = Math.max(0, inner - 1);
  const runLength = box.extents.slice(runAxis).reduce((a, b) => a * b, 1);
  const walk = (axis: number, from: number, to: number): void => {
    const start = from + (axis < rank ? box.sourceAt[axis]! * sourceStride[axis]! : 0);
    const target = to + (axis < rank ? box.targetAt[axis]! * targetStride[axis]! : 0);
    if (axis >= runAxis) {
      run(
        start + tail(box.sourceAt, sourceStride, axis + 1),
        target + tail(box.targetAt, targetStride, axis + 1),
        runLength,
      );
      return;
    }
    for (let i = 0; i < box.extents[axis]!; i++)
      walk(axis + 1, start + i * sourceStride[axis]!, target + i * targetStride[axis]!);
  };
  walk(0, 0, 0);
}

function isWhole(box: Box, axis: number): boolean {
  const extent = box.extents[axis]!;
  return extent === box.sourceShape[axis] && extent === box.targetShape[axis];
}

function tail(at: readonly number[], stride: readonly number[], from: number): number {
  let offset = 0;
  for (let axis = from; axis < at.length; axis++) offset += at[axis]! * stride[axis]!;
  return offset;
}
