import { DeadlineQueue } from "../../core/deadline-queue.js";
import type { QueueView } from "../../core/policy.js";
import { DISPATCHED, type RequestHandle } from "../../core/tables/request-table.js";
import { dropReason } from "../drop-reason.js";
import { Retries } from "../retries.js";

/** Lines are told apart by weight up to so many. */
const LINES_MAX = 256;
/** Requests that a line's mean SLO is of. */
const SLO_MEMORY = 20;

/** Requests of one kind that are worth the same, earliest deadline first. */
export interface Line {
  readonly kind: number;
  readonly weight: number;
  readonly pending: DeadlineQueue;
  /** From arrival to deadline, a moving mean, µs. */
  sloUs: number;
  /** Start of its last batch, µs; -Infinity: none. */
  servedAt: number;
  /** Between its batches while somebody waits, a moving mean, µs; -1: none was seen. */
  gapUs: number;
}

/**
 * Who waits, in a line for each kind and weight: within one, all differ by their deadlines alone. Before them those that
 * came back from a failed batch to run alone.
 *
 * Lines stay once they are made: kinds are few. Weights are a client's, so beyond a limit they are told apart no more.
 */
export class WaitingByKind {
  readonly lines: Line[] = [];
  readonly retries: Retries;
  private count = 0;
  private readonly core: QueueView;

  constructor(core: QueueView) {
    this.core = core;
    this.retries = new Retries(core);
  }

  get length(): number {
    return this.count + this.retries.length;
  }

  /** Without those who came back to run alone. */
  get inLine(): number {
    return this.count;
  }

  push(request: RequestHandle): void {
    const { requests } = this.core;
    const line = this.lineOf(request);
    const dueAt = requests.dueAt[request]!;
    line.pending.push(request, dueAt);
    const sloUs = Math.max(1, dueAt - requests.arrivalAt[request]!);
    line.sloUs = line.sloUs === 0 ? sloUs : line.sloUs + (sloUs - line.sloUs) / SLO_MEMORY;
    this.count++;
  }

  /** Handed back after a failure; see Queue.returned. */
  takeBack(request: RequestHandle, alone: boolean): void {
    if (alone) this.retries.push(request);
    else this.push(request);
  }

  remove(request: RequestHandle): void {
    if (this.retries.remove(request)) return;
    if (this.lineOf(request).pending.remove(request, this.core.requests.dueAt[request]!)) this.count--;
  }

  /** Takes a request out of its line and puts it before `following` in the chain of a batch. @returns it. */
  link(line: Line, request: RequestHandle, following: RequestHandle): RequestHandle {
    const { requests } = this.core;
    line.pending.remove(request, requests.dueAt[request]!);
    this.count--;
    requests.state[request] = DISPATCHED;
    requests.next[request] = following;
    return request;
  }

  /** Gives up all of a line that are due before `endAt`, when one of them would end that went at once and alone. */
  dropLate({ pending }: Line, endAt: number, at: number): void {
    const late = pending.firstNotBefore(endAt);
    for (let index = 0; index < late; index++)
      this.core.drop(pending.handleAt(index), dropReason(pending.deadlineAt(index), at, endAt), at, endAt);
    pending.removeFront(late);
    this.count -= late;
  }

  /** Gives all away, and is empty; see Queue.giveAway. */
  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    this.retries.giveAway((request) => to(request, true));
    for (const { pending } of this.lines) {
      for (let index = 0; index < pending.length; index++) to(pending.handleAt(index), false);
      pending.removeFront(pending.length);
    }
    this.count = 0;
  }

  private lineOf(request: RequestHandle): Line {
    const { requests } = this.core;
    const kind = requests.kind[request]!;
    const weight = requests.weight[request]!;
    const { lines } = this;
    let alike = -1;
    for (let index = 0; index < lines.length; index++) {
      const line = lines[index]!;
      if (line.kind !== kind) continue;
      if (line.weight === weight) return line;
      alike = index;
    }
    if (alike >= 0 && lines.length >= LINES_MAX) return lines[alike]!;
    const line = {
      kind,
      weight,
      pending: new DeadlineQueue(),
      sloUs: 0,
      servedAt: Number.NEGATIVE_INFINITY,
      gapUs: -1,
    };
    lines.push(line);
    return line;
  }
}
