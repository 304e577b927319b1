import { violated } from "../../core/invariant.js";
import type { ArbiterView, QueueSpec, QueueView, SeparablePolicy } from "../../core/policy.js";
import { definePolicy, type PolicyDefinition, type PolicyDescriptor } from "../descriptor.js";
import { type GivenOptions, type OptionsOf, type OptionTable, withDefaults } from "../options.js";
import { QueueLoadShare, RankLoadShare } from "./load-share.js";
import { type ArbiterPlusOptions, RankArbiter } from "./rank-arbiter.js";
import { Rehearsal } from "./rehearsal/rehearsal.js";
import { SharedLoad } from "./shared-load.js";
import { WindowQueue, type WindowRules } from "./window-queue.js";

/** A policy of queues that open a window and one arbiter that ranks them: queues of several such may share an arbiter. */
export interface WindowDescriptor<T extends OptionTable = OptionTable> extends PolicyDescriptor<T, SeparablePolicy> {
  /** @param sloUs the promise of the queue's model. */
  rulesOf(given: GivenOptions<T>, sloUs: number): WindowRules;
}

interface WindowDefinition<T extends OptionTable>
  extends Pick<PolicyDefinition<T>, "name" | "summary" | "options" | "exclusive"> {
  rules(options: OptionsOf<T>, sloUs: number): WindowRules;
}

export function defineWindowPolicy<const T extends OptionTable>(definition: WindowDefinition<T>): WindowDescriptor<T> {
  const { name, rules } = definition;
  return withRules(definition, {
    create: (options) => ({
      name,
      createQueue: (key: number, spec: QueueSpec, core: QueueView) =>
        windowQueue(key, spec, core, rules(options, spec.sloUs), null),
      createArbiter: (core) => new RankArbiter(core, { idleDispatch: idles(options) }),
    }),
  });
}

/** The same with parts of `deferred+`, through which queues and arbiter know of each other's load. */
export function defineSharedWindowPolicy<const T extends OptionTable>(
  definition: WindowDefinition<T> & { arbiterPlus(options: OptionsOf<T>): Omit<ArbiterPlusOptions, "load"> },
): WindowDescriptor<T> {
  const { name, rules, arbiterPlus } = definition;
  return withRules(definition, {
    create: (options) =>
      sharedWindowPolicy(name, (spec) => rules(options, spec.sloUs), idles(options), arbiterPlus(options)),
  });
}

/** @param rulesOf a queue. */
export function sharedWindowPolicy(
  name: string,
  rulesOf: (spec: QueueSpec, key: number) => WindowRules,
  idleDispatch: boolean,
  arbiterPlus: Omit<ArbiterPlusOptions, "load">,
): SeparablePolicy {
  const loads = new SharedLoads();
  return {
    name,
    createQueue: (key, spec, core) => {
      const load = loads.of(core);
      const rules = rulesOf(spec, key);
      const queue = windowQueue(key, spec, core, rules, load);
      load.rehearsal?.add(key, spec, rules, queue, core);
      return queue;
    },
    createArbiter: (core) => {
      const load = loads.of(core);
      // Heard of by the queues of the same scheduler; those on threads have a load of their own, and rehearse nothing.
      load.rehearsal = new Rehearsal(core.accelerators, load, (of) =>
        sharedWindowPolicy(name, of, idleDispatch, arbiterPlus),
      );
      return new RankArbiter(core, { idleDispatch, plus: { load, ...arbiterPlus } });
    },
    shareOfQueues: (core) => new QueueLoadShare(loads.of(core)),
    shareOfRank: (core) => new RankLoadShare(loads.of(core)),
  };
}

/** Queues and arbiter can live in threads of their own. */
function withRules<T extends OptionTable>(
  { rules, ...definition }: WindowDefinition<T>,
  creation: Pick<PolicyDefinition<T, SeparablePolicy>, "create">,
): WindowDescriptor<T> {
  const rulesOf = (given: GivenOptions<T>, sloUs: number) => rules(withDefaults(definition.options, given), sloUs);
  return { ...definePolicy<T, SeparablePolicy>({ ...definition, ...creation, isSeparable: true }), rulesOf };
}

const idles = (options: { readonly idle_dispatch?: unknown }): boolean => options.idle_dispatch === true;

/** @param load of the queue's scheduler; null: no rules of it need one. @throws InvariantViolation when they do. */
export function windowQueue(
  key: number,
  spec: QueueSpec,
  core: QueueView,
  { plus, ...rules }: WindowRules,
  load: SharedLoad | null,
): WindowQueue {
  const rehearsal = load?.rehearsal ?? null;
  if (plus === null) return new WindowQueue(key, spec, core, rules, rehearsal);
  if (load === null) violated(`queue ${key} must have no part of deferred+`);
  return new WindowQueue(key, spec, core, { ...rules, plus: { ...plus, load } }, rehearsal);
}

/** What the queues and the arbiter of one scheduler share, or of one thread, by that: one policy object may serve several. */
class SharedLoads {
  private readonly loads = new WeakMap<object, SharedLoad>();

  of(core: QueueView | ArbiterView): SharedLoad {
    const load = this.loads.get(core) ?? new SharedLoad(core.accelerators);
    this.loads.set(core, load);
    return load;
  }
}
