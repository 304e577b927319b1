/**
 * What the batches from b on can earn at most if the accelerator is free at some moment: the linear programme in which batches may run in
 * part and between gammas.
 *
 * With room r = dueAt[b] - clock it is concave in r: V_b(r) = max of h_b(t) + V_{b+1}(clock + t) over t <= r, where h_b is the
 * concave hull of (time, utility) of b's options and of nothing. So V_b is the segments of V_{b+1} that lie before dueAt[b] and
 * those of h_b together, steepest first: what earns most per time is next to the deadline, as whatever has to be given up is
 * what earns least. A clock after dueAt[b] is outside of V_b: then the caller asks for a later batch.
 */
import type { AllocationProblem } from "./allocation.js";
import type { BatchOptions } from "./batch-options.js";
import { hullCorners, hullSlope, hullTimeUs } from "./concave-hull.js";

/** Of a batch; where there are more, the rest earns as much per time as the last, which keeps it a bound. */
const SEGMENTS_MAX = 256;

export class FluidBound {
  /** Segments of batch b are rows b x SEGMENTS_MAX on; each from a room, with the value there and the utility per µs from there on. */
  private readonly roomUs: Float64Array;
  private readonly value: Float64Array;
  private readonly slope: Float64Array;
  private readonly segments: Int32Array;
  private readonly dueAt: Float64Array;
  /** Where the last answer was: the next is mostly beside it. */
  private cursor = 0;

  private readonly corners: Int32Array;

  constructor(batchesMax: number, gammasMax: number) {
    this.corners = new Int32Array(gammasMax);
    const rows = (batchesMax + 1) * SEGMENTS_MAX;
    this.roomUs = new Float64Array(rows);
    this.value = new Float64Array(rows);
    this.slope = new Float64Array(rows);
    this.segments = new Int32Array(batchesMax + 1);
    this.dueAt = new Float64Array(batchesMax + 1);
  }

  /** @param first the batch from which on bounds are needed; its dueAt >= now. */
  read(problem: AllocationProblem, options: BatchOptions, first: number, now: number): void {
    const { count } = problem;
    this.dueAt.set(problem.dueAt.subarray(0, count));
    this.dueAt[count] = count > 0 ? problem.dueAt[count - 1]! : now;
    this.segments[count] = 0;
    this.open(count, 0, 0);
    for (let batch = count - 1; batch >= first; batch--) this.combine(options, batch, now);
  }

  /** @param clock when the accelerator is free, at most dueAt[batch] (of the last batch where batch is the count). */
  at(batch: number, clock: number): number {
    const { roomUs } = this;
    const room = this.dueAt[batch]! - clock;
    const first = batch * SEGMENTS_MAX;
    let at = Math.min(first + this.cursor, first + this.segments[batch]! - 1);
    while (at > first && roomUs[at]! > room) at--;
    const last = first + this.segments[batch]! - 1;
    while (at < last && roomUs[at + 1]! <= room) at++;
    this.cursor = at - first;
    return this.value[at]! + this.slope[at]! * (room - roomUs[at]!);
  }

  private combine(options: BatchOptions, batch: number, now: number): void {
    const { roomUs, slope, corners } = this;
    const { timeUs, utility } = options;
    const hullEnd = hullCorners(timeUs, utility, options.start[batch]!, options.start[batch + 1]!, corners);
    const later = (batch + 1) * SEGMENTS_MAX;
    const laterEnd = later + this.segments[batch + 1]!;
    const neededUs = this.dueAt[batch]! - now;
    let value = this.at(batch + 1, this.dueAt[batch]!);
    let segment = later + this.cursor;
    let from = this.dueAt[batch + 1]! - this.dueAt[batch]!;
    let corner = 0;
    let room = 0;
    this.segments[batch] = 0;
    for (;;) {
      const ofHull = corner < hullEnd ? hullSlope(timeUs, utility, corners, corner) : 0;
      const isLater = segment < laterEnd && slope[segment]! >= ofHull;
      const steepest = isLater ? slope[segment]! : ofHull;
      this.open(batch, room, value, steepest);
      if (steepest === 0 || this.segments[batch]! === SEGMENTS_MAX) return;
      const until = segment + 1 < laterEnd ? roomUs[segment + 1]! : Number.POSITIVE_INFINITY;
      const lengthUs = isLater ? until - from : hullTimeUs(timeUs, corners, corner);
      room += lengthUs;
      value += lengthUs * steepest;
      if (room >= neededUs) return;
      if (isLater) {
        segment++;
        from = until;
      } else corner++;
    }
  }

  private open(batch: number, roomUs: number, value: number, slope = 0): void {
    const at = batch * SEGMENTS_MAX + this.segments[batch]!++;
    this.roomUs[at] = roomUs;
    this.value[at] = value;
    this.slope[at] = slope;
  }
}
