/**
 * The way of requests through the modules of one pipeline: hand-off, fan-out, join, branch, what may be missing, what is
 * called off. It knows nothing of tensors, queues or clocks: its driver says how many parts a request makes, which
 * branch it takes and how each part ended.
 *
 * A request is a frame; a fan-out opens one more for each of its parts. A part of a request in a module is the number
 * frame * modules + module: each module runs at most once in a frame. Nothing is allocated per request but where tables grow.
 *
 * What is to be done next waits until `settle`: the driver hears of ends inside its schedulers' calls, where none may be
 * called again.
 */
import { violated } from "../core/invariant.js";
import { DROP_BUDGET, DROP_QUEUE_FULL, DROPPED, FAIL_MODEL_ERROR, FAILED, FINISHED, LATE } from "../core/outcome.js";
import type { Pipeline } from "./pipeline.js";

/** Number of a part; tells its module and its request. Reused after the request is gone. */
export type Part = number;
/** Number of a request in its flow. Reused after it is gone. */
export type FlowRequest = number;

export interface FlowDriver {
  /** It waits in the queue of its module from now on. `ended` follows exactly once, at once or later. */
  submit(part: Part, at: number): void;
  /** Nobody needs it any more: if it waits, it is to end now; if it runs, its end will be passed over. */
  callOff(part: Part, at: number): void;
  /**
   * How many parts the request makes in a module that fans out; REFUSED: it fails there.
   * @param path of the part that it happens in, the same in every run. @param frame of that part.
   */
  partsOf(request: FlowRequest, module: number, path: number, frame: number): number;
  /** Whether the request goes on with so many parts; if not, it is dropped for its budget before any is submitted. Absent: always. */
  goesOn?(request: FlowRequest, module: number, parts: number, at: number): boolean;
  /** Which of the module's subs a request takes, by position; REFUSED: it fails there. */
  branchOf(request: FlowRequest, module: number, path: number, frame: number): number;
  /** It has a number, which is its own until it has ended and none of its parts is with the driver. */
  requestEntered(request: FlowRequest): void;
  /** The request ended, exactly once. @param module where it was decided; -1: all are done. */
  requestEnded(request: FlowRequest, outcome: number, reason: number, module: number, at: number): void;
}

/** What a driver answers that cannot say how a request goes on. */
export const REFUSED = -1;

/** The part is with the driver. */
const RUNS = 1;
/** Something that leads to it was done: it is to run, and not to be passed over. */
const IS_LED_TO = 2;
/** Waits to be submitted. */
const IS_DUE = 4;

const SUBMIT = 0;
const CALL_OFF = 1;

export class Flow {
  readonly pipeline: Pipeline;
  /** By request: the driver's id, when it arrived, when it must be done. */
  tag: Float64Array;
  arrivalAt: Float64Array;
  deadline: Float64Array;
  /** By request: its class (RequestClasses). */
  private kind: Int32Array;
  private readonly driver: FlowDriver;
  private readonly width: number;
  private readonly framesMax: number;
  /** By frame: its request, the frame around it (-1: it is a request), the next one of the same request, its place (see partsOf). */
  private root: Int32Array;
  private around: Int32Array;
  private following: Int32Array;
  private path: Int32Array;
  /** By frame: which of its fan-out's parts it is; 0: a request. */
  private number: Int32Array;
  /** By frame: how many parts its fan-out makes in all, if those around it all make as many; 1: a request. */
  private together: Float64Array;
  /** By request: parts with the driver or about to be, and whether it has ended. */
  private held: Int32Array;
  private hasEnded: Uint8Array;
  /** By part: reports of modules before it that are still to come, and flags. */
  private awaits: Int32Array;
  private flags: Uint8Array;
  /** `awaits` of a new frame. */
  private readonly edges: Int32Array;
  private firstFree = -1;
  private used = 0;
  private freeCount = 0;
  private liveCount = 0;
  private outbox = new Int32Array(256);
  private outHead = 0;
  private outTail = 0;

  /** @param framesMax requests and parts of fan-outs at a time; reaching it is a named outcome (dropped, queue-full). */
  constructor(pipeline: Pipeline, driver: FlowDriver, framesMax: number) {
    this.pipeline = pipeline;
    this.driver = driver;
    this.framesMax = framesMax;
    const capacity = Math.min(framesMax, 64);
    this.width = pipeline.modules.length;
    this.edges = Int32Array.from(pipeline.pres, (pres) => pres.length);
    this.tag = new Float64Array(capacity);
    this.arrivalAt = new Float64Array(capacity);
    this.deadline = new Float64Array(capacity);
    this.kind = new Int32Array(capacity);
    this.root = new Int32Array(capacity);
    this.around = new Int32Array(capacity);
    this.following = new Int32Array(capacity);
    this.path = new Int32Array(capacity);
    this.number = new Int32Array(capacity);
    this.together = new Float64Array(capacity);
    this.held = new Int32Array(capacity);
    this.hasEnded = new Uint8Array(capacity);
    this.awaits = new Int32Array(capacity * this.width);
    this.flags = new Uint8Array(capacity * this.width);
  }

  /** Requests whose parts are not all gone. */
  get live(): number {
    return this.liveCount;
  }
  /** Requests and parts of fan-outs that there is still room for. */
  get room(): number {
    return this.framesMax - this.used + this.freeCount;
  }
  /** `settle` has something to do. */
  get isUnsettled(): boolean {
    return this.outHead !== this.outTail;
  }

  moduleOf(part: Part): number {
    return part % this.width;
  }
  requestOf(part: Part): FlowRequest {
    return this.root[(part / this.width) | 0]!;
  }
  pathOf(part: Part): number {
    return this.path[(part / this.width) | 0]!;
  }

  partOf(frame: number, module: number): Part {
    return frame * this.width + module;
  }
  /** The request, or the part of a fan-out, that the part belongs to. */
  frameOf(part: Part): number {
    return (part / this.width) | 0;
  }
  /** -1: it is a request. */
  aroundOf(frame: number): number {
    return this.around[frame]!;
  }
  /** Which of its fan-out's parts the frame is, from 0. */
  numberOf(frame: number): number {
    return this.number[frame]!;
  }

  /** How many parts of its request come to a module that the frame comes to; those of fan-outs around it are taken to make as many. */
  togetherOf(frame: number): number {
    return this.together[frame]!;
  }

  /** Class of the frame's request. */
  classOf(frame: number): number {
    return this.kind[this.root[frame]!]!;
  }

  /** Its request has not ended: its end will count. */
  isAwaited(part: Part): boolean {
    return this.hasEnded[this.requestOf(part)] === 0;
  }

  /** A request arrived. @param kind its class. @returns its number, or -1: there is no room, it has not entered. */
  enter(tag: number, arrivalAt: number, deadline: number, at: number, kind = 0): FlowRequest {
    const request = this.addFrame(-1, 0, 0, 1);
    if (request < 0) return -1;
    this.tag[request] = tag;
    this.arrivalAt[request] = arrivalAt;
    this.deadline[request] = deadline;
    this.kind[request] = kind;
    this.hasEnded[request] = 0;
    this.liveCount++;
    this.hold(request);
    this.driver.requestEntered(request);
    for (const source of this.pipeline.sources) this.ready(request, source, at);
    this.release(request, at);
    return request;
  }

  /** The part ended. What follows from it waits for `settle`. */
  ended(part: Part, outcome: number, reason: number, at: number): void {
    if ((this.flags[part]! & RUNS) === 0) violated(`part ${part} ended twice, or was never submitted`);
    this.flags[part]! &= ~RUNS;
    const module = part % this.width;
    const frame = (part / this.width) | 0;
    const request = this.root[frame]!;
    if (this.hasEnded[request] === 0) {
      if (outcome === FINISHED || this.goesOnWithout(module, outcome, this.deadline[request]!, at))
        this.leadOn(frame, module, at);
      else this.end(request, outcome, reason, module, at);
    }
    this.release(request, at);
  }

  /** The part of a soft module that did not finish is missing; one that is late, if there is time left. */
  private goesOnWithout(module: number, outcome: number, deadline: number, at: number): boolean {
    return this.pipeline.isSoft(module) && (outcome !== LATE || at < deadline);
  }

  /** The client went away, or the driver gives the whole request up. Harmless when it has ended. */
  abandon(request: FlowRequest, outcome: number, reason: number, at: number): void {
    if (this.hasEnded[request] === 1 || this.held[request] === 0) return;
    this.hold(request);
    this.end(request, outcome, reason, -1, at);
    this.release(request, at);
  }

  /** Does what is to be done next, and what follows from that at once. */
  settle(at: number): void {
    while (this.outHead !== this.outTail) {
      const entry = this.outbox[this.outHead]!;
      this.outHead = (this.outHead + 1) & (this.outbox.length - 1);
      const part = entry >> 1;
      const request = this.requestOf(part);
      if ((entry & 1) === SUBMIT) {
        this.flags[part]! &= ~IS_DUE;
        if (this.hasEnded[request] === 1) this.release(request, at);
        else {
          this.flags[part]! |= RUNS;
          this.driver.submit(part, at);
        }
      } else {
        if ((this.flags[part]! & RUNS) !== 0) this.driver.callOff(part, at);
        this.release(request, at);
      }
    }
  }

  /** The module is done in this frame, or goes without. */
  private leadOn(frame: number, module: number, at: number): void {
    const { pipeline } = this;
    const subs = pipeline.subs[module]!;
    let taken = -1;
    if (pipeline.modules[module]!.branches) {
      const request = this.root[frame]!;
      const way = this.driver.branchOf(request, module, this.path[frame]!, frame);
      if (way < 0) {
        this.end(request, FAILED, FAIL_MODEL_ERROR, module, at);
        return;
      }
      taken = subs[way]!;
    }
    for (const sub of subs) this.report(frame, module, sub, taken < 0 || sub === taken, at);
  }

  private report(frame: number, module: number, sub: number, isDone: boolean, at: number): void {
    const { scope, gathersIn } = this.pipeline;
    this.reach(gathersIn[sub] === scope[module] ? frame : this.around[frame]!, sub, isDone, at);
  }

  private reach(frame: number, module: number, isDone: boolean, at: number): void {
    const slot = frame * this.width + module;
    if (isDone) this.flags[slot]! |= IS_LED_TO;
    this.awaits[slot]!--;
    if (this.awaits[slot]! > 0) return;
    if ((this.flags[slot]! & IS_LED_TO) !== 0) this.ready(frame, module, at);
    else this.passOver(frame, module, at);
  }

  private ready(frame: number, module: number, at: number): void {
    // Where a module leads to several, what the first made of it may have ended the request.
    if (this.hasEnded[this.root[frame]!] === 1) return;
    if (this.pipeline.modules[module]!.fansOut) this.fanOut(frame, module, at);
    else this.due(frame * this.width + module);
  }

  private fanOut(frame: number, module: number, at: number): void {
    const request = this.root[frame]!;
    const count = this.driver.partsOf(request, module, this.path[frame]!, frame);
    if (count < 0) {
      this.end(request, FAILED, FAIL_MODEL_ERROR, module, at);
      return;
    }
    if (this.driver.goesOn?.(request, module, count, at) === false) {
      this.end(request, DROPPED, DROP_BUDGET, module, at);
      return;
    }
    const joins = this.pipeline.joinsOf[module]!;
    for (const join of joins) this.awaits[frame * this.width + join]! += count;
    const together = this.together[frame]! * count;
    for (let number = 0; number < count; number++) {
      const inner = this.addFrame(frame, pathOfPart(this.path[frame]!, module, number), number, together);
      if (inner < 0) {
        this.end(request, DROPPED, DROP_QUEUE_FULL, module, at);
        return;
      }
      this.due(inner * this.width + module);
    }
    // The edges stood for one part each: taken back, and where there is none, what joins has nothing more to wait for.
    for (const join of joins) this.reach(frame, join, true, at);
  }

  /** No way through the module was taken: nor any through it alone to what follows. */
  private passOver(frame: number, module: number, at: number): void {
    const { modules, joinsOf, subs } = this.pipeline;
    if (modules[module]!.fansOut) for (const join of joinsOf[module]!) this.reach(frame, join, false, at);
    else for (const sub of subs[module]!) this.report(frame, module, sub, false, at);
  }

  private due(part: Part): void {
    this.flags[part]! |= IS_DUE;
    this.push(part, SUBMIT);
  }

  private push(part: Part, what: number): void {
    this.hold(this.requestOf(part));
    const { outbox } = this;
    outbox[this.outTail] = (part << 1) | what;
    this.outTail = (this.outTail + 1) & (outbox.length - 1);
    if (this.outTail !== this.outHead) return;
    const grown = new Int32Array(outbox.length * 2);
    grown.set(outbox.subarray(this.outHead));
    grown.set(outbox.subarray(0, this.outHead), outbox.length - this.outHead);
    this.outHead = 0;
    this.outTail = outbox.length;
    this.outbox = grown;
  }

  /** Ends the request; what else of it waits somewhere is called off. */
  private end(request: FlowRequest, outcome: number, reason: number, module: number, at: number): void {
    if (this.hasEnded[request] === 1) return;
    this.hasEnded[request] = 1;
    for (let frame = request; frame >= 0; frame = this.following[frame]!) {
      const first = frame * this.width;
      for (let part = first; part < first + this.width; part++)
        if ((this.flags[part]! & RUNS) !== 0) this.push(part, CALL_OFF);
    }
    this.driver.requestEnded(request, outcome, reason, module, at);
  }

  private hold(request: FlowRequest): void {
    this.held[request]!++;
  }

  /** One part less. The last one gone: all are done, unless it has ended otherwise. */
  private release(request: FlowRequest, at: number): void {
    this.held[request]!--;
    if (this.held[request]! > 0) return;
    if (this.hasEnded[request] === 0) {
      this.hasEnded[request] = 1;
      this.driver.requestEnded(request, FINISHED, 0, -1, at);
    }
    this.liveCount--;
    for (let frame = request; frame >= 0; ) {
      const next = this.following[frame]!;
      this.following[frame] = this.firstFree;
      this.firstFree = frame;
      this.freeCount++;
      frame = next;
    }
  }

  /** @param around -1: a request's own. @returns -1: there is no room. */
  private addFrame(around: number, path: number, number: number, together: number): number {
    let frame = this.firstFree;
    if (frame >= 0) {
      this.firstFree = this.following[frame]!;
      this.freeCount--;
    } else {
      if (this.used === this.framesMax) return -1;
      if (this.used === this.root.length) this.grow();
      frame = this.used++;
    }
    this.around[frame] = around;
    this.path[frame] = path;
    this.number[frame] = number;
    this.together[frame] = together;
    this.following[frame] = -1;
    if (around < 0) {
      this.root[frame] = frame;
      this.held[frame] = 0;
    } else {
      const request = this.root[around]!;
      this.root[frame] = request;
      this.following[frame] = this.following[request]!;
      this.following[request] = frame;
    }
    const first = frame * this.width;
    this.awaits.set(this.edges, first);
    this.flags.fill(0, first, first + this.width);
    return frame;
  }

  private grow(): void {
    const capacity = Math.min(this.framesMax, this.root.length * 2);
    const wider = <T extends Int32Array | Uint8Array | Float64Array>(old: T, length: number): T => {
      const grown = new (old.constructor as new (length: number) => T)(length);
      grown.set(old as never);
      return grown;
    };
    this.tag = wider(this.tag, capacity);
    this.arrivalAt = wider(this.arrivalAt, capacity);
    this.deadline = wider(this.deadline, capacity);
    this.kind = wider(this.kind, capacity);
    this.root = wider(this.root, capacity);
    this.around = wider(this.around, capacity);
    this.following = wider(this.following, capacity);
    this.path = wider(this.path, capacity);
    this.number = wider(this.number, capacity);
    this.together = wider(this.together, capacity);
    this.held = wider(this.held, capacity);
    this.hasEnded = wider(this.hasEnded, capacity);
    this.awaits = wider(this.awaits, capacity * this.width);
    this.flags = wider(this.flags, capacity * this.width);
  }
}

/** A number for the part `number` of a fan-out within the part `path`: the same in every run, whatever is decided when. */
export function pathOfPart(path: number, module: number, number: number): number {
  let hash = Math.imul(path ^ (module + 1), 0x01000193);
  hash = Math.imul(hash ^ (number + 1), 0x9e3779b1);
  return hash ^ (hash >>> 15);
}
