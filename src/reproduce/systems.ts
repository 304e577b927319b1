/**
 * The systems that experiments compare. A new policy joins every comparison with one entry here.
 *
 * Equal care: a system whose published setting is not its best here has both, or has variants of which the best is shown.
 */
import { POLICY_NAMES } from "../policies/registry.js";
import type { Choice } from "./point.js";

export interface System {
  readonly name: string;
  /** The best of them is shown; one for most. */
  readonly variants: readonly Choice[];
  /** Seconds before which nothing is counted, at least. */
  readonly warmupS?: number;
  /** Ours: compared with the others, not one of the baselines. */
  readonly isOurs?: boolean;
  /** In comparisons of all systems; others are named where they are wanted. */
  readonly isMain: boolean;
}

const NEXUS_WARMUP_S = 12;

const choice = (policy: string, options: Readonly<Record<string, unknown>> = {}): Choice => ({ policy, options });

function nexus(options: Readonly<Record<string, unknown>>): Choice[] {
  return [
    choice("nexus", { plan: "epochs", rate_margin: 1.15, ...options }),
    choice("nexus", { plan: "epochs", rate_margin: 4, ...options }),
    choice("nexus", { plan: "static", ...options }),
  ];
}

export const SYMPHONY: System = { name: "Symphony", variants: [choice("deferred")], isOurs: true, isMain: true };

/** Work past the paper, where it is built in. */
const PLUS: readonly System[] = POLICY_NAMES.includes("deferred+")
  ? [{ name: "deferred+", variants: [choice("deferred+")], isOurs: true, isMain: true }]
  : [];

export const CLOCKWORK: System = { name: "Clockwork", variants: [choice("clockwork")], isMain: true };

/** Without its constants (schedule ahead, margin, window, delay), which at SLOs of 20 ms leave it batches of 1. */
export const CLOCKWORK_FREE: System = {
  name: "Clockwork, times 0",
  variants: [choice("clockwork", { schedule_ahead_ms: 0, slo_margin_ms: 0, action_window_ms: 0, control_delay_ms: 0 })],
  isMain: true,
};

/**
 * With one frontend. Its planner's epochs with two margins on rates, and every model everywhere, whichever does best: with
 * many models the smallest margin leaves those whose SLO is near 2 l(1) more than 1 % bad at nearly any rate.
 */
export const NEXUS: System = { name: "Nexus", variants: nexus({}), warmupS: NEXUS_WARMUP_S, isMain: true };

export const NEXUS_8: System = {
  name: "Nexus, 8 frontends",
  variants: nexus({ frontends: 8 }),
  warmupS: NEXUS_WARMUP_S,
  isMain: false,
};

/** Flex, repaired: whoever can no longer finish alone is dropped. */
export const SHEPHERD: System = { name: "Shepherd", variants: [choice("shepherd")], isMain: true };

/** As the re-implementation that Symphony compares with: it asks the newest request, so a head that expires jams its model. */
export const SHEPHERD_PUBLISHED: System = {
  name: "Shepherd, as published",
  variants: [choice("shepherd", { drop: "newest" })],
  isMain: true,
};

/** Symphony's own eager baseline (§3.4, k = 0), with the better of two drop rules. */
export const EAGER: System = {
  name: "Eager",
  variants: [choice("eager", { drop: "infeasible" }), choice("eager", { drop: "window" })],
  isMain: true,
};

export const SYSTEMS: readonly System[] = [
  SYMPHONY,
  ...PLUS,
  CLOCKWORK,
  CLOCKWORK_FREE,
  NEXUS,
  NEXUS_8,
  SHEPHERD,
  SHEPHERD_PUBLISHED,
  EAGER,
];

export const MAIN_SYSTEMS: readonly System[] = SYSTEMS.filter(({ isMain }) => isMain);
/** What stands against eager scheduling or alone in a figure. */
export const OUR_SYSTEMS: readonly System[] = SYSTEMS.filter(({ isOurs }) => isOurs === true);
