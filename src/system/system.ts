/**
 * What is above schedulers: several groups of accelerators with a scheduler each, routes from models to their queues, and
 * the pipelines whose requests go from queue to queue.
 *
 * The driver delivers events to the schedulers as ever. It passes on the ends of parts (`isPart`, `partEnded`) and calls
 * `settle` after every event, outside of the schedulers' calls: then parts wait in their next queue, at the same moment.
 */
import { DROP_CANCELLED, DROP_QUEUE_FULL, DROPPED, FINISHED } from "../core/outcome.js";
import type { QueueKey } from "../core/policy.js";
import type { Scheduler } from "../core/scheduler.js";
import { PLAIN, QUEUED, type RequestHandle } from "../core/tables/request-table.js";
import type { Budgets } from "./budget/budget.js";
import { Flow, type FlowDriver, type FlowRequest, type Part, REFUSED } from "./flow.js";
import { ModuleStates } from "./module-states.js";
import type { Pipeline } from "./pipeline.js";

/** The queue that serves a model. */
export interface Route {
  readonly group: number;
  readonly key: QueueKey;
}

/** What a driver knows of a pipeline's requests. */
export interface PipelineDriver extends Omit<FlowDriver, "submit" | "callOff"> {
  /** App or class of the part, for its model. */
  kindOf(part: Part): number;
  /** It comes to the queue of its module. */
  partComes(part: Part): void;
  /** The part did not even get into the queue of its module: the only end that its scheduler does not tell of. */
  partRefused(part: Part, at: number): void;
}

export interface PipelinePlace {
  readonly pipeline: Pipeline;
  /** By module. */
  readonly models: readonly number[];
  readonly budgets: Budgets;
  /** Requests and parts of fan-outs at a time. */
  readonly framesMax: number;
}

/** Pipelines in one system; parts' tags carry the pipeline's number. */
export const PIPELINES_MAX = 1024;

export class System {
  readonly groups: readonly Scheduler[];
  /** By model. */
  readonly routes: readonly Route[];
  private readonly lines: Line[] = [];

  constructor(groups: readonly Scheduler[], routes: readonly Route[]) {
    this.groups = groups;
    this.routes = routes;
  }

  addPipeline(place: PipelinePlace, driver: PipelineDriver): Flow {
    const line = new Line(this, this.lines.length, place, driver);
    this.lines.push(line);
    return line.flow;
  }

  /** Whether a request of a scheduler is part of a pipeline's, by its tag. */
  static isPart(tag: number): boolean {
    return tag < 0;
  }
  static pipelineOf(tag: number): number {
    return (-1 - tag) % PIPELINES_MAX;
  }
  static partOf(tag: number): Part {
    return Math.floor((-1 - tag) / PIPELINES_MAX);
  }

  /** A scheduler ended a part. @param cameAt when it came to its queue. @param execStartAt of its batch, where it ran. */
  partEnded(tag: number, outcome: number, reason: number, cameAt: number, execStartAt: number, at: number): void {
    const { flow, states, budgets } = this.lines[System.pipelineOf(tag)]!;
    const part = System.partOf(tag);
    const module = flow.moduleOf(part);
    if (flow.isAwaited(part))
      states.ended(module, outcome, cameAt, execStartAt, at, budgets.lengthsUs(module, flow.frameOf(part)));
    budgets.left(part, flow, outcome === FINISHED ? at - execStartAt : 0, at);
    flow.ended(part, outcome, reason, at);
  }

  /** A part ran in a batch of this size. */
  partRan(tag: number, size: number, at: number): void {
    const { flow, states, budgets } = this.lines[System.pipelineOf(tag)]!;
    const part = System.partOf(tag);
    budgets.ran(part, size);
    if (flow.isAwaited(part)) states.ran(flow.moduleOf(part), size, at);
  }

  /** Carries out what is to be done next in all pipelines. */
  settle(at: number): void {
    for (const line of this.lines) line.look(at);
    for (let isDone = false; !isDone; ) {
      isDone = true;
      for (const { flow } of this.lines) {
        if (!flow.isUnsettled) continue;
        isDone = false;
        flow.settle(at);
      }
    }
  }
}

/** A pipeline's parts in the queues of its modules. */
class Line implements FlowDriver {
  readonly flow: Flow;
  readonly states: ModuleStates;
  readonly budgets: Budgets;
  private readonly system: System;
  private readonly number: number;
  /** Of the modules' states, that budgets know. */
  private intervals = 0;
  private readonly place: PipelinePlace;
  private readonly driver: PipelineDriver;
  /** By part: its request in the scheduler of its module, while it is there. */
  private handles = new Int32Array(64);
  private readonly traits = { ...PLAIN, deadline: 0 };

  constructor(system: System, number: number, place: PipelinePlace, driver: PipelineDriver) {
    this.system = system;
    this.number = number;
    this.place = place;
    this.budgets = place.budgets;
    this.driver = driver;
    this.flow = new Flow(place.pipeline, this, place.framesMax);
    this.states = new ModuleStates(place.pipeline.modules.length, {
      window: place.budgets.spec.windowS,
      ways: place.pipeline.ways,
      hasBatches: (module) => place.budgets.hasBatches(module),
    });
  }

  look(at: number): void {
    const intervals = this.states.look(at);
    if (intervals === this.intervals) return;
    this.intervals = intervals;
    this.place.budgets.published(this.states.board, at);
  }

  submit(part: Part, at: number): void {
    const { flow, place, traits } = this;
    const module = flow.moduleOf(part);
    const { group, key } = this.system.routes[place.models[module]!]!;
    const scheduler = this.system.groups[group]!;
    this.driver.partComes(part);
    traits.kind = this.driver.kindOf(part);
    place.budgets.tell(traits, part, flow, at);
    this.states.came(module, at);
    if (!scheduler.arrive(key, -1 - (part * PIPELINES_MAX + this.number), at, traits.deadline, at, traits)) {
      this.driver.partRefused(part, at);
      this.budgets.left(part, flow, 0, at);
      flow.ended(part, DROPPED, DROP_QUEUE_FULL, at);
      return;
    }
    if (part >= this.handles.length) this.grow(part);
    this.handles[part] = scheduler.requests.lastAdded;
  }

  callOff(part: Part, at: number): void {
    const { group } = this.system.routes[this.place.models[this.flow.moduleOf(part)]!]!;
    const scheduler = this.system.groups[group]!;
    const handle: RequestHandle = this.handles[part]!;
    if (scheduler.requests.state[handle] === QUEUED) scheduler.cancel(handle, at);
  }

  partsOf(request: FlowRequest, module: number, path: number, frame: number): number {
    const parts = this.driver.partsOf(request, module, path, frame);
    if (parts !== REFUSED) this.states.made(module, parts);
    return parts;
  }
  goesOn(request: FlowRequest, module: number, parts: number, at: number): boolean {
    return this.budgets.goesOn(request, module, parts, at);
  }
  branchOf(request: FlowRequest, module: number, path: number, frame: number): number {
    const way = this.driver.branchOf(request, module, path, frame);
    if (way !== REFUSED) this.states.took(module, this.flow.classOf(frame), way);
    return way;
  }
  requestEnded(request: FlowRequest, outcome: number, reason: number, module: number, at: number): void {
    const isLate = outcome === FINISHED && at > this.flow.deadline[request]!;
    this.budgets.ended(request, isLate || (outcome === DROPPED && reason !== DROP_CANCELLED));
    this.driver.requestEnded(request, outcome, reason, module, at);
  }
  requestEntered(request: FlowRequest): void {
    this.driver.requestEntered(request);
  }

  private grow(part: Part): void {
    const grown = new Int32Array(Math.max(part + 1, this.handles.length * 2));
    grown.set(this.handles);
    this.handles = grown;
  }
}
