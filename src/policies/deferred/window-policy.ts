import { violated } from "../../core/invariant.js";
import type { CoreView, Policy, QueueSpec, QueueView, SeparablePolicy } from "../../core/policy.js";
import { definePolicy, type PolicyDefinition, type PolicyDescriptor } from "../descriptor.js";
import { type GivenOptions, type OptionsOf, type OptionTable, withDefaults } from "../options.js";
import type { QueuePlusOptions } from "./queue-plus.js";
import { type ArbiterPlusOptions, RankArbiter } from "./rank-arbiter.js";
import { SharedLoad } from "./shared-load.js";
import { WindowQueue, type WindowQueueOptions } from "./window-queue.js";

/** Rules of one queue as plain data, so that they fit a ring record and an event log. */
export interface WindowRules extends Omit<WindowQueueOptions, "plus"> {
  /** Parts of `deferred+`; null: none. */
  readonly plus: Omit<QueuePlusOptions, "load"> | null;
}

/** A policy of queues that open a window and one arbiter that ranks them: queues of several such may share an arbiter. */
export interface WindowDescriptor<T extends OptionTable = OptionTable, P extends Policy = Policy>
  extends PolicyDescriptor<T, P> {
  /** @param sloUs the promise of the queue's model. */
  rulesOf(given: GivenOptions<T>, sloUs: number): WindowRules;
}

interface WindowDefinition<T extends OptionTable>
  extends Pick<PolicyDefinition<T>, "name" | "summary" | "options" | "exclusive"> {
  rules(options: OptionsOf<T>, sloUs: number): WindowRules;
}

/** Queues and arbiter can live in threads of their own. */
export function defineWindowPolicy<const T extends OptionTable>(
  definition: WindowDefinition<T>,
): WindowDescriptor<T, SeparablePolicy> {
  const { name, rules } = definition;
  return withRules(definition, {
    isSeparable: true,
    create: (options) => ({
      name,
      createQueue: (key: number, spec: QueueSpec, core: QueueView) =>
        windowQueue(key, spec, core, rules(options, spec.sloUs), null),
      createArbiter: (core) => new RankArbiter(core, { idleDispatch: idles(options) }),
    }),
  });
}

/** The same with parts of `deferred+`, through which queues and arbiter know of each other. */
export function defineSharedWindowPolicy<const T extends OptionTable>(
  definition: WindowDefinition<T> & { arbiterPlus(options: OptionsOf<T>): Omit<ArbiterPlusOptions, "load"> },
): WindowDescriptor<T> {
  const { name, rules, arbiterPlus } = definition;
  return withRules(definition, {
    create: (options) => {
      const loads = new SharedLoads();
      return {
        name,
        createQueue: (key, spec, core) =>
          windowQueue(key, spec, core, rules(options, spec.sloUs), () => loads.of(core)),
        createArbiter: (core) =>
          new RankArbiter(core, {
            idleDispatch: idles(options),
            plus: { load: loads.of(core), ...arbiterPlus(options) },
          }),
      };
    },
  });
}

function withRules<T extends OptionTable, P extends Policy>(
  { rules, ...definition }: WindowDefinition<T>,
  creation: Pick<PolicyDefinition<T, P>, "isSeparable" | "create">,
): WindowDescriptor<T, P> {
  const rulesOf = (given: GivenOptions<T>, sloUs: number) => rules(withDefaults(definition.options, given), sloUs);
  return { ...definePolicy<T, P>({ ...definition, ...creation }), rulesOf };
}

const idles = (options: { readonly idle_dispatch?: unknown }): boolean => options.idle_dispatch === true;

/** @param load of the queue's scheduler; null where there can be none. @throws InvariantViolation when rules need it then. */
export function windowQueue(
  key: number,
  spec: QueueSpec,
  core: QueueView,
  { plus, ...rules }: WindowRules,
  load: (() => SharedLoad) | null,
): WindowQueue {
  if (plus === null) return new WindowQueue(key, spec, core, rules);
  if (load === null) violated(`queue ${key} must have no part of deferred+ on a thread of its own`);
  return new WindowQueue(key, spec, core, { ...rules, plus: { ...plus, load: load() } });
}

/** What the queues and the arbiter of one scheduler share, by scheduler: one policy object may serve several. */
export class SharedLoads {
  private readonly loads = new WeakMap<CoreView, SharedLoad>();

  of(core: CoreView): SharedLoad {
    const load = this.loads.get(core) ?? new SharedLoad(core.accelerators);
    this.loads.set(core, load);
    return load;
  }
}
