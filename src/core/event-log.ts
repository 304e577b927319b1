/**
 * What a scheduler saw and decided, as rows of doubles: recorded by the live server, replayed by anyone.
 *
 * The core is deterministic, so the same events give the same commands: a log that does not replay shows a change of
 * behaviour (or a driver that broke the rules of time). Rows are [kind, at, group, a, b, c, d, e]; what a..e mean is
 * written at each kind. A log starts with one line of JSON (the groups), a newline, padding to a multiple of 8 bytes,
 * then rows, little-endian.
 */
import { invariant } from "./invariant.js";
import { ProfiledLatency } from "./latency/latency.js";
import type { NetworkDelays, Policy, QueueSpec } from "./policy.js";
import { type CommandSink, Scheduler } from "./scheduler.js";
import { QUEUED, type RequestHandle } from "./tables/request-table.js";

export const LOG_WIDTH = 8;

/** Events. */
/** a = key, b = sloUs, c = lengthMax, d = sizeMax, e = numbers of the policy. LOG_NUMBERS rows with them, then the table, follow. */
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
/** Commands. */
/** a = batch, b = accelerator, c = key, d = size, e = execAt. */
export const LOG_DISPATCH = 32;
/** a = tag, b = outcome, c = reason, d = execStartAt. */
export const LOG_END = 33;
/** a = batch, b = accelerator. */
export const LOG_PREEMPT = 34;

export const isCommand = (kind: number): boolean => kind >= LOG_DISPATCH;

export interface LogGroup {
  readonly name: string;
  readonly network: NetworkDelays;
  readonly acceleratorsMax: number;
  readonly requestsMax: number;
  readonly retriesMax: number;
  readonly learn: boolean;
  /** The policy of the whole group; absent: its queues bring their own rules. */
  readonly policy?: NamedPolicy;
}

/** A policy by its name, with valid options. */
export interface NamedPolicy {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
}

export interface LogHeader {
  readonly format: "rubato-events-1";
  readonly groups: readonly LogGroup[];
}

export interface EventLog {
  readonly header: LogHeader;
  readonly rows: Float64Array;
}

export function encodeHeader(header: LogHeader): Uint8Array {
  const text = JSON.stringify(header);
  // The format is ASCII: group names are checked identifiers.
  const length = Math.ceil((text.length + 1) / 8) * 8;
  const bytes = new Uint8Array(length).fill(32);
  for (let index = 0; index < text.length; index++) bytes[index] = text.charCodeAt(index) & 127;
  bytes[length - 1] = 10;
  return bytes;
}

/** @throws Error naming what is wrong with the file. A last, partial row (the recorder was killed) is left out. */
export function decodeLog(bytes: Uint8Array): EventLog {
  const end = bytes.indexOf(10);
  if (end < 0) throw new Error("event log must start with a line of JSON; found no line");
  const text = String.fromCharCode(...bytes.subarray(0, end));
  const header = JSON.parse(text) as LogHeader;
  if (header.format !== "rubato-events-1")
    throw new Error(`event log must have format rubato-events-1; was ${String(header.format)}`);
  // A copy: rows must be aligned, and a Buffer's own slice would share its pool.
  const body = new Uint8Array(bytes.subarray(end + 1));
  const rowBytes = LOG_WIDTH * Float64Array.BYTES_PER_ELEMENT;
  const rows = Math.floor(body.byteLength / rowBytes);
  return { header, rows: new Float64Array(body.buffer, 0, rows * LOG_WIDTH) };
}

/** Everything that waits in a queue, by handle: the order in which a driver fails it. */
export function* queuedHandles(scheduler: Scheduler, key: number): Generator<RequestHandle> {
  const { requests } = scheduler;
  for (let handle = 0; handle < requests.state.length; handle++)
    if (requests.state[handle] === QUEUED && requests.queue[handle] === key) yield handle;
}

export interface ReplayResult {
  readonly events: number;
  readonly commands: number;
  /** First row whose command differs from the recorded one, with both; null when all agree. */
  readonly difference: {
    readonly row: number;
    readonly recorded: readonly number[];
    readonly replayed: readonly number[];
  } | null;
}

/**
 * Runs the events of a log through fresh schedulers and compares the commands.
 *
 * @param policyFor the policy of a group. @param withPolicyNumbers adds to a queue's spec what its policy wants to know.
 */
export function replay(
  log: EventLog,
  policyFor: (group: LogGroup) => Policy,
  withPolicyNumbers: (spec: QueueSpec, numbers: Float64Array) => QueueSpec,
): ReplayResult {
  const { header, rows } = log;
  const replayed: number[][] = [];
  const schedulers = header.groups.map((group, index) => {
    const holder: { scheduler: Scheduler | null } = { scheduler: null };
    const sink: CommandSink = {
      dispatch: (batch, accelerator, at) => {
        const { batches } = holder.scheduler!;
        replayed.push([
          LOG_DISPATCH,
          at,
          index,
          batch,
          accelerator,
          batches.queue[batch]!,
          batches.size[batch]!,
          batches.execAt[batch]!,
        ]);
      },
      end: (request, outcome, reason, execStartAt, at) =>
        replayed.push([LOG_END, at, index, holder.scheduler!.requests.tag[request]!, outcome, reason, execStartAt, 0]),
      batchEnded: () => {},
      preempt: (batch, accelerator, at) => replayed.push([LOG_PREEMPT, at, index, batch, accelerator, 0, 0, 0]),
    };
    holder.scheduler = new Scheduler(policyFor(group), sink, group);
    return holder.scheduler;
  });
  const result = { events: 0, commands: 0 };
  for (let offset = 0; offset < rows.length; offset += LOG_WIDTH) {
    const recorded = rows.subarray(offset, offset + LOG_WIDTH);
    const kind = recorded[0]!;
    if (isCommand(kind)) {
      const command = replayed.shift();
      result.commands++;
      if (command?.every((value, index) => value === recorded[index]) !== true)
        return { ...result, difference: { row: offset / LOG_WIDTH, recorded: [...recorded], replayed: command ?? [] } };
      continue;
    }
    const extra = replayed[0];
    if (extra !== undefined && kind !== LOG_NUMBERS)
      return { ...result, difference: { row: offset / LOG_WIDTH, recorded: [...recorded], replayed: extra } };
    result.events++;
    const scheduler = schedulers[recorded[2]!];
    invariant(scheduler !== undefined, `event log names group ${recorded[2]} of ${header.groups.length}`);
    if (kind === LOG_QUEUE_ADDED) offset = replayQueueAdded(scheduler, rows, offset, withPolicyNumbers);
    else replayEvent(scheduler, recorded);
  }
  const extra = replayed[0];
  return {
    ...result,
    difference: extra === undefined ? null : { row: rows.length / LOG_WIDTH, recorded: [], replayed: extra },
  };
}

/** @returns offset of the last row that belongs to it. */
function replayQueueAdded(
  scheduler: Scheduler,
  rows: Float64Array,
  offset: number,
  withPolicyNumbers: (spec: QueueSpec, numbers: Float64Array) => QueueSpec,
): number {
  const [, , , key, sloUs, lengthMax, sizeMax, numbersLength] = rows.subarray(offset, offset + LOG_WIDTH);
  const total = numbersLength! + sizeMax!;
  const numbers = new Float64Array(total);
  let last = offset;
  for (let index = 0; index < total; index++) {
    if (index % 5 === 0) last += LOG_WIDTH;
    invariant(
      rows[last] === LOG_NUMBERS,
      `event log: row ${last / LOG_WIDTH} must hold numbers of the queue before it`,
    );
    numbers[index] = rows[last + 3 + (index % 5)]!;
  }
  const table = new Float64Array(sizeMax! + 2);
  table.set(numbers.subarray(numbersLength!), 1);
  table[sizeMax! + 1] = Number.POSITIVE_INFINITY;
  const spec: QueueSpec = { latency: new ProfiledLatency(table), sloUs: sloUs!, lengthMax: lengthMax! };
  const got = scheduler.addQueue(withPolicyNumbers(spec, numbers.subarray(0, numbersLength!)));
  invariant(got === key, `event log: queue ${key} became queue ${got}`);
  return last;
}

function replayEvent(scheduler: Scheduler, row: Float64Array): void {
  const [kind, at, , a, b, c, d] = row as unknown as [number, number, number, number, number, number, number];
  switch (kind) {
    case LOG_QUEUE_REMOVED:
      scheduler.removeQueue(a);
      break;
    case LOG_ARRIVED:
      invariant(scheduler.arrive(a, b, c, d, at), "event log: the table of requests was full");
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
    case LOG_HELD:
      scheduler.hold(a, b === 1, at);
      break;
    case LOG_NETWORK:
      scheduler.networkChanged({ controlUs: a, dataUsPerRequest: b, responseUs: c }, at, d === 0 ? undefined : d - 1);
      break;
    default:
      invariant(false, `event log: unknown kind ${kind}`);
  }
}
