/**
 * What a scheduler saw and decided: recorded by the live server, replayed by anyone.
 *
 * The core is deterministic, so the same events give the same commands: a log that does not replay shows a change of
 * behaviour (or a driver that broke the rules of time). A log starts with one line of JSON (the groups), a newline, padding
 * to a multiple of 8 bytes, then rows (event-rows.ts), little-endian.
 */
import {
  applyEvent,
  isCommand,
  LOG_END,
  LOG_PREEMPT,
  LOG_TRAITS,
  LOG_WIDTH,
  type RowSink,
  type SpecReader,
  writeDispatch,
  writeEnd,
} from "./event-rows.js";
import { invariant } from "./invariant.js";
import type { Learning } from "./latency/learner.js";
import type { NetworkDelays, Policy } from "./policy.js";
import { type CommandSink, Scheduler } from "./scheduler.js";

export interface LogGroup {
  readonly name: string;
  readonly network: NetworkDelays;
  readonly acceleratorsMax: number;
  readonly requestsMax: number;
  readonly retriesMax: number;
  readonly learn: Learning;
  /** The policy of the whole group; absent: its queues bring their own rules. */
  readonly policy?: NamedPolicy;
}

/** A policy by its name, with valid options. */
export interface NamedPolicy {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** What is written. */
const FORMAT = "rubato-events-2";
/** Has no traits and no variants, and is read as one in which nobody uses them; its ends carry no estimates. */
const FORMAT_1 = "rubato-events-1";
const FORMATS: readonly string[] = [FORMAT_1, FORMAT];

export interface LogHeader {
  readonly format: typeof FORMAT | typeof FORMAT_1;
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
  if (!FORMATS.includes(header.format))
    throw new Error(`event log must have format ${FORMATS.join(" or ")}; was ${String(header.format)}`);
  // A copy: rows must be aligned, and a Buffer's own slice would share its pool.
  const body = new Uint8Array(bytes.subarray(end + 1));
  const rowBytes = LOG_WIDTH * Float64Array.BYTES_PER_ELEMENT;
  const rows = new Float64Array(body.buffer, 0, Math.floor(body.byteLength / rowBytes) * LOG_WIDTH);
  // Traits whose arrival was not written any more.
  const isCut = rows.length > 0 && rows[rows.length - LOG_WIDTH] === LOG_TRAITS;
  return { header, rows: isCut ? rows.subarray(0, -LOG_WIDTH) : rows };
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
 * @param policyFor the policy of a group. @param specOf adds to a queue's spec what its policy wants to know.
 */
export function replay(log: EventLog, policyFor: (group: LogGroup) => Policy, specOf: SpecReader): ReplayResult {
  const { header, rows } = log;
  const replayed: number[][] = [];
  const rowsOut: RowSink = { row: (...row) => void replayed.push(row) };
  const schedulers = header.groups.map((group, index) => {
    const holder: { scheduler: Scheduler | null } = { scheduler: null };
    const sink: CommandSink = {
      dispatch: (batch, _accelerator, at) => writeDispatch(rowsOut, index, holder.scheduler!, batch, at),
      end: (request, outcome, reason, execStartAt, at, lateByUs) =>
        writeEnd(rowsOut, index, holder.scheduler!.requests.tag[request]!, outcome, reason, execStartAt, at, lateByUs),
      batchEnded: () => {},
      preempt: (batch, accelerator, at) => rowsOut.row(LOG_PREEMPT, at, index, batch, accelerator, 0, 0, 0),
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
      if (header.format === FORMAT_1 && kind === LOG_END && command !== undefined) command[LOG_WIDTH - 1] = 0;
      if (command?.every((value, index) => value === recorded[index]) !== true)
        return { ...result, difference: { row: offset / LOG_WIDTH, recorded: [...recorded], replayed: command ?? [] } };
      continue;
    }
    const extra = replayed[0];
    if (extra !== undefined)
      return { ...result, difference: { row: offset / LOG_WIDTH, recorded: [...recorded], replayed: extra } };
    result.events++;
    const scheduler = schedulers[recorded[2]!];
    invariant(scheduler !== undefined, `event log names group ${recorded[2]} of ${header.groups.length}`);
    offset += (applyEvent(scheduler, rows, offset, specOf) - 1) * LOG_WIDTH;
  }
  const extra = replayed[0];
  return {
    ...result,
    difference: extra === undefined ? null : { row: rows.length / LOG_WIDTH, recorded: [], replayed: extra },
  };
}
