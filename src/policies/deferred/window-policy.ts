import { violated } from "../../core/invariant.js";
import type { ArbiterView, QueueSpec, QueueView, SeparablePolicy } from "../../core/policy.js";
import type { TimesByKind } from "../by-kind/times-by-kind.js";
import { definePolicy, type PolicyDefinition, type PolicyDescriptor } from "../descriptor.js";
import { otasPlusQueue } from "../elastic/otas-queue.js";
import { type GivenOptions, type OptionsOf, type OptionTable, withDefaults } from "../options.js";
import { QueueLoadShare, RankLoadShare } from "./load-share.js";
import { type ArbiterPlusOptions, RankArbiter } from "./rank-arbiter.js";
import { AdaptiveQueue, timesOf, windowSpec } from "./rehearsal/adaptive-queue.js";
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

/** @param rulesOf a queue. @param kindsOf what a queue on a stage knows of its kinds; absent: the queues are no stage's. */
export function sharedWindowPolicy(
  name: string,
  rulesOf: (spec: QueueSpec, key: number) => WindowRules,
  idleDispatch: boolean,
  arbiterPlus: Omit<ArbiterPlusOptions, "load">,
  kindsOf: (spec: QueueSpec) => TimesByKind | null = () => null,
): SeparablePolicy {
  const loads = new SharedLoads();
  return {
    name,
    createQueue: (key, spec, core) => {
      const load = loads.of(core);
      const rules = rulesOf(spec, key);
      if (rules.adaptsTokens === true && spec.elastic !== undefined) {
        load.rehearsal?.addOther(key);
        const say = (perUs: number, need: number): void => load.say(key, perUs, need, 1);
        const accuracy = rules.learnsAccuracy === true ? "recent" : "profiled";
        return otasPlusQueue(key, spec, core, { isolation: rules.isolation === true, say, accuracy });
      }
      const queue = windowQueue(key, spec, core, rules, load, kindsOf(spec));
      load.rehearsal?.add(key, queue instanceof AdaptiveQueue ? queue.spec : spec, rules, queue, core);
      return queue;
    },
    createArbiter: (core) => {
      const load = loads.of(core);
      // Heard of by the queues of the same scheduler; those on threads have a load of their own, and rehearse nothing.
      load.rehearsal = new Rehearsal(core.accelerators, load, (of, kinds) =>
        sharedWindowPolicy(name, of, idleDispatch, arbiterPlus, kinds),
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
  rules: WindowRules,
  load: SharedLoad | null,
  staged: TimesByKind | null = null,
): WindowQueue | AdaptiveQueue {
  const rehearsal = load?.rehearsal ?? null;
  const { plus, groups: _, ...options } = rules;
  if (plus !== null && load === null) violated(`queue ${key} must have no part of deferred+`);
  const parts = plus === null ? {} : { plus: { ...plus, load: load! } };
  const byWindow = (of: QueueSpec) => new WindowQueue(key, of, core, { ...options, ...parts }, rehearsal);
  if (staged !== null) return new AdaptiveQueue(key, spec, core, byWindow(spec), rules, null, staged, true);
  if (plus?.byApp !== true) return byWindow(spec);
  const times = timesOf(spec);
  const planned = windowSpec(spec, times, core.learns);
  return new AdaptiveQueue(key, planned, core, byWindow(planned), rules, rehearsal, times, false);
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
