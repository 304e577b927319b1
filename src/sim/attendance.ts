import type { ExpandedFault } from "../config/scenario/expand-faults.js";
import type { ExpandedScenario } from "../config/scenario/expand-scenario.js";
import { assertNever } from "../core/invariant.js";
import { Fleet } from "./fleet.js";
import type { SimulatedGroup } from "./simulated-group.js";

/** Which accelerators are there: from the start, by faults, by the autoscaler. They are numbered through all groups. */
export class Attendance {
  /** Null: the number of accelerators is not looked at. */
  readonly fleet: Fleet | null;
  private readonly scenario: ExpandedScenario;
  private readonly groups: readonly SimulatedGroup[];
  private readonly isFailed: Uint8Array;

  constructor(scenario: ExpandedScenario, groups: readonly SimulatedGroup[]) {
    this.scenario = scenario;
    this.groups = groups;
    this.isFailed = new Uint8Array(scenario.accelerators.length);
    this.fleet = this.createFleet();
    scenario.accelerators.forEach((accelerator, id) => {
      const group = this.groupOf(id);
      group.accelerators.scale[id - group.first] = accelerator.scale;
      if (accelerator.present && (this.fleet?.isWanted(id) ?? true)) this.join(id, 0);
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
        if (this.fleet?.isWanted(id) ?? true) this.join(id, at);
        return;
      case "slow":
        // The scheduler is not told: it learns from measured batches.
        group.accelerators.scale[id - group.first] = this.scenario.accelerators[id]!.scale * fault.factor;
        return;
      default:
        assertNever(fault.kind);
    }
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
