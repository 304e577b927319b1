import type { ExpandedFault } from "../config/scenario/expand-faults.js";
import { type ExpandedGroup, type ExpandedScenario, groupsOf } from "../config/scenario/expand-scenario.js";
import { assertNever } from "../core/invariant.js";
import { Fleet } from "./fleet.js";
import { FollowingWorkers } from "./following-workers.js";
import type { SimulatedGroup } from "./simulated-group.js";

/** Which accelerators are there: from the start, by faults, by the autoscaler, by the rate. They are numbered through all groups. */
export class Attendance {
  /** Null: the number of accelerators is not looked at. */
  readonly fleet: Fleet | null;
  /** When `step` has something to do. */
  nextAt: number;
  /** By group; null: all its accelerators are there. */
  private readonly following: readonly (FollowingWorkers | null)[];
  private readonly isFollowing: boolean;
  private readonly scenario: ExpandedScenario;
  private readonly groups: readonly SimulatedGroup[];
  private readonly isFailed: Uint8Array;

  constructor(scenario: ExpandedScenario, groups: readonly SimulatedGroup[]) {
    this.scenario = scenario;
    this.groups = groups;
    this.isFailed = new Uint8Array(scenario.accelerators.length);
    this.fleet = this.createFleet();
    this.following = groupsOf(scenario).map((group, index) => this.follow(group, index));
    this.isFollowing = this.following.some((following) => following !== null);
    this.nextAt = this.soonest();
    scenario.accelerators.forEach((accelerator, id) => {
      const group = this.groupOf(id);
      group.accelerators.scale[id - group.first] = accelerator.scale;
      if (accelerator.present && this.isWanted(id)) this.join(id, 0);
    });
  }

  fault(fault: ExpandedFault, at: number): void {
    const id = fault.accelerator;
    const group = this.groupOf(id);
    switch (fault.kind) {
      case "fail":
        this.isFailed[id] = 1;
        this.isGoing(id, at);
        group.fail(id - group.first, at);
        return;
      case "leave":
        this.leave(id, at);
        return;
      case "recover":
      case "join":
        this.isFailed[id] = 0;
        if (this.isWanted(id)) this.join(id, at);
        return;
      case "slow":
        // The scheduler is not told: it learns from measured batches.
        group.accelerators.scale[id - group.first] = this.scenario.accelerators[id]!.scale * fault.factor;
        return;
      default:
        assertNever(fault.kind);
    }
  }

  /** A request, or a part of one, came to the model. */
  cameTo(model: number): void {
    if (this.isFollowing) this.following[this.scenario.models[model]!.group ?? 0]?.cameTo(model);
  }

  step(at: number): void {
    if (this.fleet !== null && this.fleet.nextAt <= at) this.fleet.step(at);
    for (const following of this.following) if (following !== null && following.nextAt <= at) following.step(at);
    this.nextAt = this.soonest();
  }

  private soonest(): number {
    return this.following.reduce(
      (soonest, following) => Math.min(soonest, following?.nextAt ?? Number.POSITIVE_INFINITY),
      this.fleet?.nextAt ?? Number.POSITIVE_INFINITY,
    );
  }

  private isWanted(id: number): boolean {
    const group = this.groupOf(id);
    const following = this.following[this.groups.indexOf(group)]!;
    return (this.fleet?.isWanted(id) ?? true) && (following?.isWanted(id - group.first) ?? true);
  }

  private follow({ first, workers }: ExpandedGroup, group: number): FollowingWorkers | null {
    if (workers === undefined) return null;
    const models = new Map([...this.scenario.models.entries()].filter(([, model]) => (model.group ?? 0) === group));
    return new FollowingWorkers(workers, models, this.scenario.durationUs, {
      join: (worker, at) => this.isFailed[first + worker] === 0 && this.join(first + worker, at),
      leave: (worker, at) => this.leave(first + worker, at),
    });
  }

  /** A scenario that autoscales has one group. */
  private createFleet(): Fleet | null {
    const { autoscale } = this.scenario;
    if (autoscale === undefined) return null;
    const group = this.groups[0]!;
    const { scheduler } = group;
    return new Fleet(this.scenario, autoscale, {
      join: (id, at) => this.isFailed[id] === 0 && this.join(id, at),
      leave: (id, at) => this.leave(id, at),
      busyUs: (at) => group.busyUs(at),
      holds: (id) => group.accelerators.running[id]! >= 0,
      queueLength: (model) => scheduler.queueLength(model),
    });
  }

  private join(id: number, at: number): void {
    const group = this.groupOf(id);
    if (group.accelerators.up[id - group.first] === 0) this.fleet?.countServing(1, at);
    group.join(id - group.first, this.scenario.accelerators[id]!.scale, at);
  }

  private leave(id: number, at: number): void {
    this.isGoing(id, at);
    const group = this.groupOf(id);
    group.leave(id - group.first, at);
  }

  private isGoing(id: number, at: number): void {
    const { accelerators, first } = this.groupOf(id);
    if (accelerators.up[id - first] === 1) this.fleet?.countServing(-1, at);
  }

  private groupOf(id: number): SimulatedGroup {
    let index = this.groups.length - 1;
    while (this.groups[index]!.first > id) index--;
    return this.groups[index]!;
  }
}
