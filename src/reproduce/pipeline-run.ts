/** What a figure needs of a run of one pipeline beyond its report, told by its events. Fan-outs are not for it: a request has a part in a module. */
import type { ExpandedScenario } from "../config/scenario/scenario.js";
import type { SimulatedEvent } from "../sim/event-lines.js";
import type { PipelinePoint, PipelineResult } from "./point.js";

/** Requests whose budgets are kept: consecutive ones that came after the middle of the run. */
const FOLLOWED = 100;
const SECOND_US = 1e6;
/** 0, 0.01, ..., 1. */
const PERCENTILES = Array.from({ length: 101 }, (_, index) => index / 100);
/** As PARD counts its input. */
export const FIFTH_US = 200_000;

type Spent = NonNullable<PipelineResult["spent"]>;

export class PipelineRun {
  private readonly names: readonly string[];
  private readonly subs: readonly (readonly number[])[];
  private readonly warmupUs: number;
  private readonly seconds: number;
  private readonly offered: Float64Array;
  private readonly good: Float64Array;
  private readonly fifths: Float64Array;
  /** By request: arrival and deadline; and of each module when it came there; absent: not yet. */
  private readonly arrivalAt: number[] = [];
  private readonly deadline: number[] = [];
  private readonly cameAt: number[] = [];
  /** As `cameAt`: when it entered the batch that it ran in; absent: when that began. */
  private readonly joinedAt: number[] = [];
  /** By request, over the modules that it went through, µs. */
  private readonly spentUs: Record<keyof Spent, number[]> = { queue: [], wait: [], exec: [] };
  private readonly finished: number[] = [];
  /** By module and second: parts that ran, and the sums of their times. */
  private readonly ran: Float64Array;
  private readonly waitUs: Float64Array;
  private readonly stayUs: Float64Array;
  /** By module, µs. */
  private readonly stays: number[][];
  private firstFollowed = -1;

  constructor({ pipelines, durationUs, warmupUs }: ExpandedScenario) {
    const { modules } = pipelines![0]!;
    this.names = modules.map(({ name }) => name);
    this.subs = modules.map(({ subs }) => subs.map((id) => modules.findIndex((module) => module.id === id)));
    this.stays = modules.map(() => []);
    this.warmupUs = warmupUs;
    this.seconds = Math.ceil((durationUs - warmupUs) / SECOND_US);
    const cells = this.seconds * this.names.length;
    [this.offered, this.good] = [new Float64Array(this.seconds), new Float64Array(this.seconds)];
    this.fifths = new Float64Array((this.seconds * SECOND_US) / FIFTH_US);
    [this.ran, this.waitUs, this.stayUs] = [new Float64Array(cells), new Float64Array(cells), new Float64Array(cells)];
  }

  readonly tell = (event: SimulatedEvent): void => {
    if (event.event === "arrived") this.arrived(event);
    else if (event.event === "joined")
      this.joinedAt[this.placeOf(event.request, this.names.indexOf(event.module!))] = event.at_us;
    else if (event.event === "ran") this.batchRan(event);
    else if (event.module === undefined) this.requestEnded(event);
    else if (event.outcome === "finished")
      this.partFinished(event.request, this.names.indexOf(event.module), event.at_us);
  };

  details(wanted: PipelinePoint["details"]): Partial<PipelineResult> {
    return {
      ...(wanted.includes("seconds") ? { seconds: { offered: [...this.offered], good: [...this.good] } } : {}),
      ...(wanted.includes("arrivals") ? { arrivals: [...this.fifths] } : {}),
      ...(wanted.includes("modules") ? { modules: this.modules() } : {}),
      ...(wanted.includes("stays") ? { stays: this.percentiles() } : {}),
      ...(wanted.includes("budgets") ? { budgets: this.budgets() } : {}),
      ...(wanted.includes("spent") ? { spent: this.spent() } : {}),
    };
  }

  private arrived({ request, at_us: at, deadline_us: deadline }: Extract<SimulatedEvent, { event: "arrived" }>): void {
    this.arrivalAt[request] = at;
    this.deadline[request] = deadline;
    this.came(request, 0, at);
    const second = this.secondOf(at);
    if (second >= 0 && second < this.seconds) {
      this.offered[second]!++;
      this.fifths[Math.floor((at - this.warmupUs) / FIFTH_US)]!++;
    }
    if (this.firstFollowed < 0 && second >= this.seconds / 2) this.firstFollowed = request;
  }

  private requestEnded({ request, outcome }: Extract<SimulatedEvent, { event: "ended" }>): void {
    const second = this.secondOf(this.arrivalAt[request]!);
    if (outcome !== "finished" || second < 0 || second >= this.seconds) return;
    this.good[second]!++;
    this.finished.push(request);
  }

  private partFinished(request: number, module: number, at: number): void {
    for (const sub of this.subs[module]!) this.came(request, sub, at);
  }

  /** Where several lead to a module, the last one that ends is when a request comes there. */
  private came(request: number, module: number, at: number): void {
    this.cameAt[this.placeOf(request, module)] = at;
  }

  private placeOf(request: number, module: number): number {
    return request * this.names.length + module;
  }

  private batchRan({ members, start_us: startAt, end_us: endAt }: Extract<SimulatedEvent, { event: "ran" }>): void {
    const second = this.secondOf(startAt);
    for (const { request, module: name } of members) {
      const module = this.names.indexOf(name!);
      const place = this.placeOf(request, module);
      const cameAt = this.cameAt[place]!;
      const joinedAt = this.joinedAt[place] ?? startAt;
      this.spend(request, "queue", joinedAt - cameAt);
      this.spend(request, "wait", startAt - joinedAt);
      this.spend(request, "exec", endAt - startAt);
      if (second < 0 || second >= this.seconds) continue;
      const cell = module * this.seconds + second;
      this.ran[cell]!++;
      this.waitUs[cell]! += startAt - cameAt;
      this.stayUs[cell]! += endAt - cameAt;
      this.stays[module]!.push(endAt - cameAt);
    }
  }

  private spend(request: number, on: keyof Spent, us: number): void {
    this.spentUs[on][request] = (this.spentUs[on][request] ?? 0) + us;
  }

  private spent(): Spent {
    const percentilesOf = (us: readonly number[]): number[] => {
      const sorted = this.finished.map((request) => us[request]!).toSorted((a, b) => a - b);
      return sorted.length === 0
        ? []
        : PERCENTILES.map((part) => sorted[Math.round(part * (sorted.length - 1))]! / 1000);
    };
    const { queue, wait, exec } = this.spentUs;
    return { queue: percentilesOf(queue), wait: percentilesOf(wait), exec: percentilesOf(exec) };
  }

  private modules(): NonNullable<PipelineResult["modules"]> {
    return this.names.map((module, index) => {
      const meansOf = (sums: Float64Array) =>
        Array.from({ length: this.seconds }, (_, second) => {
          const cell = index * this.seconds + second;
          return this.ran[cell] === 0 ? null : sums[cell]! / this.ran[cell]! / 1000;
        });
      return { module, wait_ms: meansOf(this.waitUs), stay_ms: meansOf(this.stayUs) };
    });
  }

  private percentiles(): NonNullable<PipelineResult["stays"]> {
    return this.names.map((module, index) => {
      const sorted = this.stays[index]!.toSorted((a, b) => a - b);
      const at = (part: number): number => sorted[Math.round(part * (sorted.length - 1))]! / 1000;
      return { module, at_ms: sorted.length === 0 ? [] : Array.from({ length: 21 }, (_, step) => at(step / 20)) };
    });
  }

  private budgets(): NonNullable<PipelineResult["budgets"]> {
    return this.names.map((module, index) => ({
      module,
      left_ms: Array.from({ length: FOLLOWED }, (_, place) => {
        const request = this.firstFollowed + place;
        const cameAt = this.cameAt[this.placeOf(request, index)];
        return cameAt === undefined ? null : (this.deadline[request]! - cameAt) / 1000;
      }),
    }));
  }

  private secondOf(at: number): number {
    return Math.floor((at - this.warmupUs) / SECOND_US);
  }
}
