/**
 * The codec of events: what happens to a scheduler, and what it decides, as rows of doubles [kind, at, group, a, b, c, d, e].
 *
 * The live server writes events as such rows and applies them at the end of a tick; recorded, they are applied again by a
 * replay (event-log.ts). What a..e mean is written at each kind.
 */
import { invariant } from "./invariant.js";
import { ProfiledLatency } from "./latency/latency.js";
import type { QueueSpec } from "./policy.js";
import type { Scheduler } from "./scheduler.js";
import type { BatchId } from "./tables/batch-table.js";
import { PLAIN, QUEUED, type RequestHandle, type RequestTraits } from "./tables/request-table.js";

export const LOG_WIDTH = 8;

/** Events. */
/**
 * a = key (-1: not given out yet), b = sloUs, c = lengthMax, d = sizeMax, e = numbers of the policy. LOG_NUMBERS rows with them,
 * then the table, follow.
 */
export const LOG_QUEUE_ADDED = 1;
/** a..e = numbers that belong to the row before. */
export const LOG_NUMBERS = 2;
/** a = key. */
export const LOG_QUEUE_REMOVED = 3;
/** a = key, b = tag, c = arrivalAt, d = deadline. */
export const LOG_ARRIVED = 4;
/** a = handle. */
export const LOG_CANCELLED = 5;
/** a = batch, b = startAt, c = endAt. */
export const LOG_FINISHED = 6;
/** a = batch, b = cause, c = 1 when it had begun. */
export const LOG_FAILED = 7;
/** a = accelerator, b = scale. */
export const LOG_JOINED = 8;
/** a = accelerator. */
export const LOG_LEFT = 9;
/** a = key, b = cause. */
export const LOG_QUEUE_FAILED = 10;
export const LOG_WOKEN = 11;
/** a = controlUs, b = dataUsPerRequest, c = responseUs, d = key of the queue + 1; 0: all that have none of their own. */
export const LOG_NETWORK = 12;
/** a = batch: its turn came too late. */
export const LOG_REJECTED = 13;
/** a = key, b = 1 when it is held, 0 when it is let go. */
export const LOG_HELD = 14;
/** a = kind, b = weight, c = dueBy, d = headStartUs of the request in the LOG_ARRIVED that follows, where they are not plain. */
export const LOG_TRAITS = 15;
/** a = key (-1: not given out yet), b = key of the queue that it shadows (QueueSpec.shadowOf). */
export const LOG_SHADOW_ADDED = 16;
/** a = key, b = numbers, c = variants: how often answers are right now, by kind and variant (NaN: not known). LOG_NUMBERS rows with them follow. */
export const LOG_ACCURACY = 17;
/** Commands. */
/** a = batch, b = accelerator, c = key, d = size, e = execAt. */
export const LOG_DISPATCH = 32;
/** a = batch, b = its variant, of the LOG_DISPATCH that follows, where it is not 0. */
export const LOG_VARIANT = 35;
/** a = tag, b = outcome, c = reason, d = execStartAt, e = lateByUs (0: no estimate decided; in format 1 always). */
export const LOG_END = 33;
/** a = batch, b = accelerator. */
export const LOG_PREEMPT = 34;

export const isCommand = (kind: number): boolean => kind >= LOG_DISPATCH;

/** Where rows are written. */
export interface RowSink {
  row(kind: number, at: number, group: number, a: number, b: number, c: number, d: number, e: number): void;
}

/** A row at its place; its moment is left as it is, for who knows it only later. */
export function putRow(
  rows: Float64Array,
  offset: number,
  kind: number,
  group: number,
  a: number,
  b: number,
  c: number,
  d: number,
  e: number,
): void {
  rows[offset] = kind;
  rows[offset + 2] = group;
  rows[offset + 3] = a;
  rows[offset + 4] = b;
  rows[offset + 5] = c;
  rows[offset + 6] = d;
  rows[offset + 7] = e;
}

export function writeDispatch(into: RowSink, group: number, { batches }: Scheduler, batch: BatchId, at: number): void {
  const accelerator = batches.accelerator[batch]!;
  const execAt = batches.execAt[batch]!;
  const variant = batches.variant[batch]!;
  if (variant !== 0) into.row(LOG_VARIANT, at, group, batch, variant, 0, 0, 0);
  into.row(LOG_DISPATCH, at, group, batch, accelerator, batches.queue[batch]!, batches.size[batch]!, execAt);
}

export function writeEnd(
  into: RowSink,
  group: number,
  tag: number,
  outcome: number,
  reason: number,
  execStartAt: number,
  at: number,
  lateByUs: number,
): void {
  into.row(LOG_END, at, group, tag, outcome, reason, execStartAt, lateByUs);
}

/** What the policy of a group wants to know of a queue, from its numbers. */
export type SpecReader = (spec: QueueSpec, numbers: Float64Array) => QueueSpec;

/** Numbers in one LOG_NUMBERS row. */
export const ROW_NUMBERS = LOG_WIDTH - 3;

/**
 * The event in the row at `from` happens, and its rows after it are read with it. A queue that has no key yet gets it
 * written into its row.
 * @returns rows that it has.
 */
export function applyEvent(scheduler: Scheduler, rows: Float64Array, from: number, specOf: SpecReader): number {
  const kind = rows[from]!;
  const at = rows[from + 1]!;
  const a = rows[from + 3]!;
  const b = rows[from + 4]!;
  const c = rows[from + 5]!;
  const d = rows[from + 6]!;
  switch (kind) {
    case LOG_QUEUE_ADDED:
      return applyQueueAdded(scheduler, rows, from, specOf);
    case LOG_SHADOW_ADDED:
      rows[from + 3] = givenKey(a, scheduler.addShadowOf(b));
      break;
    case LOG_QUEUE_REMOVED:
      scheduler.removeQueue(a);
      break;
    case LOG_TRAITS:
      applyArrived(scheduler, rows, from + LOG_WIDTH, { kind: a, weight: b, dueBy: c, headStartUs: d });
      return 2;
    case LOG_ARRIVED:
      applyArrived(scheduler, rows, from, PLAIN);
      break;
    case LOG_CANCELLED:
      scheduler.cancel(a, at);
      break;
    case LOG_FINISHED:
      scheduler.finished(a, b, c, at);
      break;
    case LOG_FAILED:
      scheduler.failed(a, b, at, c === 1);
      break;
    case LOG_REJECTED:
      scheduler.rejected(a, at);
      break;
    case LOG_JOINED:
      scheduler.join(a, b, at);
      break;
    case LOG_LEFT:
      scheduler.leave(a, at);
      break;
    case LOG_QUEUE_FAILED:
      scheduler.failQueued(a, [...queuedHandles(scheduler, a)], at, b);
      break;
    case LOG_WOKEN:
      scheduler.wake(at);
      break;
    case LOG_ACCURACY:
      scheduler.accuracyChanged(a, accuracyOf(numbersAfter(rows, from, b), c), at);
      return 1 + Math.ceil(b / ROW_NUMBERS);
    case LOG_HELD:
      scheduler.hold(a, b === 1, at);
      break;
    case LOG_NETWORK:
      scheduler.networkChanged({ controlUs: a, dataUsPerRequest: b, responseUs: c }, at, d === 0 ? undefined : d - 1);
      break;
    default:
      invariant(false, `no event has kind ${kind}`);
  }
  return 1;
}

function applyArrived(scheduler: Scheduler, rows: Float64Array, from: number, traits: RequestTraits): void {
  invariant(rows[from] === LOG_ARRIVED, `row ${from / LOG_WIDTH} must be the arrival of the traits before it`);
  const tag = rows[from + 4]!;
  const isIn = scheduler.arrive(rows[from + 3]!, tag, rows[from + 5]!, rows[from + 6]!, rows[from + 1]!, traits);
  invariant(isIn, `the table of live requests must hold request ${tag}`);
}

function applyQueueAdded(scheduler: Scheduler, rows: Float64Array, from: number, specOf: SpecReader): number {
  const [key, sloUs, lengthMax, sizeMax, numbersLength] = rows.subarray(from + 3, from + LOG_WIDTH);
  const total = numbersLength! + sizeMax!;
  const numbers = numbersAfter(rows, from, total);
  const table = new Float64Array(sizeMax! + 2);
  table.set(numbers.subarray(numbersLength!), 1);
  table[sizeMax! + 1] = Number.POSITIVE_INFINITY;
  const spec: QueueSpec = { latency: new ProfiledLatency(table), sloUs: sloUs!, lengthMax: lengthMax! };
  rows[from + 3] = givenKey(key!, scheduler.addQueue(specOf(spec, numbers.subarray(0, numbersLength!))));
  return 1 + Math.ceil(total / ROW_NUMBERS);
}

function numbersAfter(rows: Float64Array, from: number, total: number): Float64Array {
  const numbers = new Float64Array(total);
  let last = from;
  for (let index = 0; index < total; index++) {
    if (index % ROW_NUMBERS === 0) last += LOG_WIDTH;
    invariant(rows[last] === LOG_NUMBERS, `row ${last / LOG_WIDTH} must hold numbers of the queue before it`);
    numbers[index] = rows[last + 3 + (index % ROW_NUMBERS)]!;
  }
  return numbers;
}

const accuracyOf = (numbers: Float64Array, variants: number): Float64Array[] =>
  Array.from({ length: numbers.length / variants }, (_, kind) => {
    const row = numbers.subarray(kind * variants, (kind + 1) * variants);
    return Number.isNaN(row[0]) ? new Float64Array() : row;
  });

/** @param told -1: not given out yet. */
function givenKey(told: number, got: number): number {
  invariant(told === -1 || got === told, `queue ${told} became queue ${got}`);
  return got;
}

/** Everything that waits in a queue, by handle: the order in which a driver fails it. */
export function* queuedHandles(scheduler: Scheduler, key: number): Generator<RequestHandle> {
  const { requests } = scheduler;
  for (let handle = 0; handle < requests.state.length; handle++)
    if (requests.state[handle] === QUEUED && requests.queue[handle] === key) yield handle;
}
