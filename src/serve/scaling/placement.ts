/**
 * Placement that acts (Symphony 4.4, Appendix A): which group holds which model, looked at anew every epoch.
 *
 * An epoch measures, plans on a thread of its own with the present placement as reference, and moves at most `movesMax`
 * models, one after the other. A move loads the model on its new group beside the old, sends new requests there, and
 * unloads it from the old group when what it had there has ended: no request is lost, run twice or refused for it.
 *
 * Ours, not the paper's: there backends cannot serve while they load and unload. Here a model is on both groups for the
 * length of its move, and S_max is kept in that time as well; and an epoch that finds the groups even enough plans
 * nothing, for measured rates are never the same twice.
 */
import type { AcceleratorGroupSpec, ModelSpec } from "../../config/model.js";
import { GROUP_AUTO } from "../../config/model.js";
import type { PlacementConfig } from "../../config/server/server.js";
import { timeUs } from "../../core/time.js";
import { measurePlan, type PlanMeasure } from "../../planning/measure.js";
import type { PlanAnswer, Planner } from "../../planning/planner.js";
import { planProblem } from "../../planning/problem.js";
import type { Alarm, Clock } from "../../wire/clock/clock.js";
import { ServingError } from "../../wire/serving-error.js";
import type { ModelSource, ModelTable } from "../models/model-table.js";
import type { Log } from "../observation/log.js";
import type { PlacementMetrics } from "../observation/placement-metrics.js";
import {
  type HeldModel,
  hasRoom,
  type Move,
  memoryNeededMb,
  orderMoves,
  type PlaceableModel,
  placementInput,
} from "./placement-problem.js";
import { PlacementRates } from "./placement-rates.js";

export interface PlacementOptions {
  readonly config: PlacementConfig;
  readonly planner: Pick<Planner, "plan" | "close">;
}

/** A place that refused a model is tried again after 1, 2, 4, ... epochs, at most so many. */
const AVOIDED_EPOCHS_MAX = 64;
/** Plans of one epoch, each without the moves of the one before for which there was no room. */
const PLANS_PER_EPOCH_MAX = 3;

interface Avoided {
  readonly untilEpoch: number;
  readonly failures: number;
}

export class Placement {
  private readonly config: PlacementConfig;
  private readonly planner: PlacementOptions["planner"];
  private readonly kind: AcceleratorGroupSpec["kind"];
  private readonly log: Log;
  private readonly metrics: PlacementMetrics;
  private readonly inner: ModelSource;
  private readonly rates: PlacementRates;
  private table!: ModelTable;
  /** Where models were put that are loaded, loading or about to be: by name, at most one for each of the repository. */
  private readonly places = new Map<string, { readonly place: number; readonly spec: ModelSpec }>();
  /** Of the last epoch that measured. */
  private loads: ReadonlyMap<string, number> = new Map();
  private readonly avoided = new Map<string, Avoided>();
  private epochs = 0;
  private last: PlanMeasure | null = null;
  private readonly clock: Clock;
  private readonly alarm: Alarm;
  private isStopping = false;
  private running: Promise<void> = Promise.resolve();

  constructor(
    options: PlacementOptions,
    groups: readonly AcceleratorGroupSpec[],
    inner: ModelSource,
    metrics: PlacementMetrics,
    log: Log,
    clock: Clock,
  ) {
    this.clock = clock;
    this.alarm = clock.alarm(() => void this.epoch().finally(() => this.schedule())).unref();
    this.config = options.config;
    this.planner = options.planner;
    this.kind = groups.find(({ name }) => name === options.config.groups[0])!.kind;
    this.inner = inner;
    this.metrics = metrics;
    this.log = log;
    this.rates = new PlacementRates(options.config.load, this.clock.now());
  }

  /** The repository with a group for every model. */
  readonly source: ModelSource = {
    names: () => this.inner.names(),
    read: (name) => {
      const versions = this.inner.read(name);
      const whole = together(versions);
      if (whole.group !== GROUP_AUTO) return versions;
      const group = this.config.groups[this.placeOf(whole)]!;
      return versions.map((spec) => ({ ...spec, group, isPlaced: true }));
    },
    times: (spec) => this.inner.times(spec),
  };

  /** To be called once, before anything else. */
  attach(table: ModelTable): void {
    this.table = table;
    const { groups } = this.config;
    this.metrics.view = {
      models: () => this.held().map(({ name, place }) => ({ model: name, group: groups[place]! })),
      groups: () => {
        const held = this.held();
        return groups.map((group, j) => {
          const inside = held.filter(({ place }) => place === j);
          const load = inside.reduce((sum, model) => sum + (this.loads.get(model.name) ?? 0), 0);
          return { group, load, memoryMb: inside.reduce((sum, { memoryMb }) => sum + memoryMb, 0) };
        });
      },
      imbalance: () =>
        this.last === null ? null : { load: this.last.loadImbalance, memory: this.last.memoryImbalance },
    };
  }

  /**
   * Plans the first placement of the whole repository, before it is loaded. Nothing is measured yet, so that all models
   * count as equally busy: with nothing known this spreads them evenly, and the first epoch corrects it.
   */
  async prepare(): Promise<void> {
    const models: PlaceableModel[] = [];
    const specs: ModelSpec[] = [];
    for (const name of this.inner.names()) {
      let spec: ModelSpec;
      try {
        spec = together(this.inner.read(name));
      } catch {
        continue; // Its load says what is wrong with it.
      }
      const pinned = this.config.groups.indexOf(spec.group);
      if (pinned < 0 && !this.isPlaceable(spec)) continue;
      specs.push(spec);
      models.push(placeable(spec, 1, pinned < 0 ? null : pinned, pinned >= 0));
    }
    if (models.every(({ isPinned }) => isPinned)) return;
    const answer = await this.plan(models);
    if (this.isStopping) return;
    if (answer.kind !== "planned") {
      this.refused(answer, "no placement of all models: each is placed by itself, while there is room");
      return;
    }
    specs.forEach((spec, i) => {
      if (!models[i]!.isPinned) this.places.set(spec.name, { place: answer.assignment[i]!, spec });
    });
    this.metrics.countEpoch("placed", answer.search);
    this.log.info(
      {
        models: models.length,
        search: answer.search,
        objective: answer.objective,
        planMs: Math.round(answer.elapsedMs),
      },
      "models are placed on groups",
    );
  }

  /** Starts the epochs. */
  run(): void {
    if (this.isStopping) return;
    this.measure();
    this.schedule();
  }

  private schedule(): void {
    if (this.isStopping) return;
    this.alarm.set(timeUs(this.clock.now() + this.config.epochUs));
  }

  /** No more epochs and moves; a move whose load is under way gives it up when it is done. @see stopped */
  stop(): void {
    this.isStopping = true;
    this.alarm.clear();
    void this.planner.close();
  }

  /** Resolves when the epoch under way has ended. */
  stopped(): Promise<void> {
    return this.running;
  }

  /** One look at the placement, with the moves that follow from it. Never rejects. */
  epoch(): Promise<void> {
    this.running = this.running
      .then(() => (this.isStopping ? undefined : this.look()))
      .catch((error: unknown) => {
        this.metrics.countEpoch("failed", "");
        this.log.error({ err: error }, "placement failed; everything stays where it is");
      });
    return this.running;
  }

  /** Load of the models that groups of placement hold; others are no concern of theirs. */
  private measure(): Map<string, number> {
    const { groups } = this.config;
    return this.rates.measure(
      this.table.servedModels().filter(({ spec }) => groups.includes(spec.group)),
      this.clock.now(),
    );
  }

  private async look(): Promise<void> {
    this.epochs++;
    this.loads = this.measure();
    const models = this.held();
    this.forgetAvoided(models);
    const free = models.filter(({ isPinned }) => !isPinned);
    if (free.length === 0 || this.config.groups.length === 1) return this.kept("nothing-to-move");
    const now = measurePlan(
      planProblem(placementInput(models, this.config, this.isAvoided)),
      Int32Array.from(models, ({ place }) => place),
    );
    this.last = now;
    if (![...this.loads.values()].some((load) => load > 0)) return this.kept("no-load");
    const { loadImbalanceMax, memoryImbalanceMax, movesMax } = this.config;
    if (now.isFeasible && now.loadImbalance <= loadImbalanceMax && now.memoryImbalance <= memoryImbalanceMax)
      return this.kept("within-limits");
    if (movesMax === 0 && now.isFeasible) return this.kept("no-moves-allowed");
    for (let plans = 0; plans < PLANS_PER_EPOCH_MAX; plans++) {
      const answer = await this.plan(models);
      if (this.isStopping) return;
      if (answer.kind !== "planned") return this.refused(answer, "no better placement: models stay where they are");
      const moves = models.flatMap((model, i) => {
        const to = answer.assignment[i]!;
        return to === model.place ? [] : [{ model, to }];
      });
      if (moves.length === 0) return this.kept(answer.search);
      const { order, blocked } = orderMoves(models, moves, this.config.memoryMbMax);
      // Half a plan may be worse than none: what has no room is avoided, and planned for anew.
      if (blocked.length > 0) this.noRoom(blocked);
      else return this.carryOut(order, now, answer);
    }
    this.kept("no-room");
  }

  private async carryOut(
    moves: readonly Move[],
    now: PlanMeasure,
    answer: PlanAnswer & { kind: "planned" },
  ): Promise<void> {
    const done = await this.moveAll(moves);
    if (done === 0) return this.kept("moves-failed");
    this.metrics.countEpoch("moved", answer.search);
    this.log.info(
      {
        moved: done,
        planned: moves.length,
        search: answer.search,
        planMs: Math.round(answer.elapsedMs),
        loadImbalance: now.loadImbalance,
        objective: { before: now.objective, planned: answer.objective },
      },
      "models moved between groups",
    );
  }

  private kept(reason: string): void {
    this.metrics.countEpoch("kept", reason);
    this.log.info({ reason, loadImbalance: this.last?.loadImbalance }, "models stay where they are");
  }

  private refused(answer: Exclude<PlanAnswer, { kind: "planned" }>, text: string): void {
    if (answer.kind === "failed") {
      this.metrics.countEpoch("failed", "");
      this.log.error({ because: answer.message }, text);
      return;
    }
    const broken = answer.kind === "infeasible" ? answer.conflicts : answer.violations;
    const constraints = [...new Set(broken.map(({ constraint }) => constraint))].sort();
    this.metrics.countEpoch(answer.kind, constraints.join("+"));
    const because =
      answer.kind === "infeasible"
        ? answer.conflicts.map(({ message }) => message)
        : answer.violations.map(
            ({ constraint, cluster, value, bound }) =>
              `${constraint}${cluster === null ? "" : ` of ${this.config.groups[cluster]}`} ${value} of ${bound}`,
          );
    this.log.warn({ outcome: answer.kind, constraints, because }, text);
  }

  private plan(models: readonly PlaceableModel[]): Promise<PlanAnswer> {
    const { timeLimitUs, gainMin } = this.config;
    return this.planner.plan({
      input: placementInput(models, this.config, this.isAvoided),
      seed: this.epochs,
      timeLimitMs: timeLimitUs / 1000,
      gainMin,
    });
  }

  // Moves

  /**
   * One after the other; the moves of a plan belong together, so that those behind one that failed are left.
   *
   * @returns how many were done.
   */
  private async moveAll(moves: readonly Move[]): Promise<number> {
    for (const [done, move] of moves.entries()) {
      if (await this.moveOne(move)) continue;
      this.metrics.move("aborted").value += moves.length - done - 1;
      return done;
    }
    return moves.length;
  }

  private noRoom(moves: readonly Move[]): void {
    for (const { model, to } of moves) {
      this.metrics.move("no-room").value++;
      this.avoid(model.name, to);
      this.log.warn(
        { model: model.name, from: this.config.groups[model.place], to: this.config.groups[to] },
        `a model stays: its new group has no room for it before others have left (memory_mb_max ${this.config.memoryMbMax})`,
      );
    }
  }

  private async moveOne(move: Move): Promise<boolean> {
    const { model, to } = move;
    const { groups, memoryMbMax } = this.config;
    // A load by request may have taken the room since.
    const held = this.held().filter(({ place }) => place === to);
    if (!hasRoom(held, model, memoryMbMax)) {
      this.noRoom([move]);
      return false;
    }
    const route = { model: model.name, from: groups[model.place]!, to: groups[to]! };
    const startedAt = this.clock.now();
    try {
      const isWanted = (): boolean => !this.isStopping;
      if (!isWanted() || !(await this.table.move(model.name, route.from, route.to, isWanted))) {
        this.metrics.move(isWanted() ? "gone" : "aborted").value++;
        return false;
      }
    } catch (error) {
      if (this.isStopping) {
        this.metrics.move("aborted").value++;
        return false;
      }
      this.metrics.move("load-failed").value++;
      this.avoid(model.name, to);
      this.log.error({ ...route, err: error }, "a model could not be moved: it stays where it was");
      return false;
    }
    const placed = this.places.get(model.name);
    if (placed !== undefined) this.places.set(model.name, { ...placed, place: to });
    this.avoided.delete(avoidedKey(model.name, to));
    this.metrics.move("moved").value++;
    const seconds = (this.clock.now() - startedAt) / 1e6;
    this.metrics.observeMove(seconds);
    this.log.info({ ...route, seconds }, "model moved");
    return true;
  }

  private avoid(name: string, place: number): void {
    const key = avoidedKey(name, place);
    const failures = (this.avoided.get(key)?.failures ?? 0) + 1;
    const epochs = Math.min(AVOIDED_EPOCHS_MAX, 2 ** (failures - 1));
    this.avoided.set(key, { untilEpoch: this.epochs + epochs, failures });
  }

  private readonly isAvoided = (name: string, place: number): boolean =>
    (this.avoided.get(avoidedKey(name, place))?.untilEpoch ?? 0) >= this.epochs;

  private forgetAvoided(models: readonly PlaceableModel[]): void {
    if (this.avoided.size === 0) return;
    const names = new Set(models.map(({ name }) => name));
    for (const key of this.avoided.keys()) if (!names.has(key.slice(0, key.indexOf("\n")))) this.avoided.delete(key);
  }

  // Places

  /** Models that the groups of placement hold now. */
  private held(): HeldModel[] {
    const rows: HeldModel[] = [];
    const mean = this.meanLoad;
    for (const specs of this.table.servedSpecs()) {
      const spec = together(specs);
      const place = this.config.groups.indexOf(spec.group);
      if (place < 0) continue;
      const load = this.loads.get(spec.name) ?? mean;
      rows.push({ ...placeable(spec, load, place, spec.isPlaced !== true), place });
    }
    return rows;
  }

  /** Of a model that was not measured yet, that of one that was: neither nothing nor the most. */
  private get meanLoad(): number {
    if (this.loads.size === 0) return 1;
    let sum = 0;
    for (const load of this.loads.values()) sum += load;
    return sum / this.loads.size;
  }

  private isPlaceable(spec: ModelSpec): boolean {
    return spec.group === GROUP_AUTO && (spec.emulated === null ? "onnx" : "emulated") === this.kind;
  }

  /**
   * The group of a model that is about to be loaded: where it is or was planned, else where it leaves the groups most
   * even. Cheap enough for the main thread: one measure for each group.
   *
   * @throws ServingError when no group can hold it.
   */
  private placeOf(spec: ModelSpec): number {
    const { groups, memoryMbMax } = this.config;
    if (!this.isPlaceable(spec))
      throw new ServingError(
        "invalid-argument",
        `model '${spec.name}': group must name a group; was auto, but placement has groups of kind ${this.kind}, which cannot run platform ${spec.platform}`,
      );
    const others = this.occupants(spec.name);
    const known = this.held().find(({ name }) => name === spec.name)?.place ?? this.places.get(spec.name)?.place;
    const inside = (j: number): readonly PlaceableModel[] => others.filter(({ place }) => place === j);
    const model = placeable(spec, this.loads.get(spec.name) ?? this.meanLoad, null, false);
    const open = groups.flatMap((_, j) => (hasRoom(inside(j), model, memoryMbMax) ? [j] : []));
    if (open.length === 0) {
      const used = groups.map((group, j) => `${group} ${memoryNeededMb(inside(j))}`).join(", ");
      throw new ServingError(
        "resource-exhausted",
        `model '${spec.name}': placement.memory_mb_max of a group is ${memoryMbMax}; it needs ${memoryNeededMb([model])} beside what is there: ${used}`,
        { reason: "no-room" },
      );
    }
    let best = known !== undefined && open.includes(known) ? known : -1;
    if (best < 0) {
      const problem = planProblem({
        ...placementInput([...others, model], this.config, () => false),
        isRunning: false,
      });
      const assignment = Int32Array.from([...others.map(({ place }) => place!), 0]);
      let least = Number.POSITIVE_INFINITY;
      for (const j of open) {
        assignment[others.length] = j;
        const { objective } = measurePlan(problem, assignment);
        if (objective >= least) continue;
        least = objective;
        best = j;
      }
    }
    this.places.set(spec.name, { place: best, spec });
    return best;
  }

  /** What the groups hold, and what is being loaded onto them; without one model. */
  private occupants(except: string): PlaceableModel[] {
    const rows: PlaceableModel[] = this.held().filter(({ name }) => name !== except);
    for (const { name, state } of this.table.index(false)) {
      const planned = this.places.get(name);
      if (state !== "LOADING" || name === except || planned === undefined) continue;
      rows.push(placeable(planned.spec, this.loads.get(name) ?? this.meanLoad, planned.place, false));
    }
    return rows;
  }
}

const avoidedKey = (name: string, place: number): string => `${name}\n${place}`;

/** Versions of a model are placed and moved as one, and need what all of them need. */
function together(versions: readonly ModelSpec[]): ModelSpec {
  const sum = (read: (spec: ModelSpec) => number): number => versions.reduce((all, spec) => all + read(spec), 0);
  return {
    ...versions.at(-1)!,
    memoryMb: sum(({ memoryMb = 0 }) => memoryMb),
    dynamicMemoryMb: Math.max(...versions.map(({ dynamicMemoryMb = 0 }) => dynamicMemoryMb)),
  };
}

const placeable = (spec: ModelSpec, load: number, place: number | null, isPinned: boolean): PlaceableModel => ({
  name: spec.name,
  load,
  memoryMb: spec.memoryMb ?? 0,
  dynamicMb: spec.dynamicMemoryMb ?? 0,
  place,
  isPinned,
});
