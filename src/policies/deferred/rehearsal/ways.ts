/** What a queue of `auto` can be served as, all of it by the same queue and arbiter. */
import type { WindowRules } from "../window-queue.js";

interface Way {
  readonly name: string;
  /** Asked for only where some queue has requests of unlike kinds. */
  readonly needsKinds?: true;
  /** The parts of `deferred+` are on. */
  readonly hasParts: boolean;
  /** @param own of a queue, as it is configured. @param sloUs the promise of its model. */
  rulesOf(own: WindowRules, sloUs: number): WindowRules;
}

/**
 * The first is what is done until something else is shown to be better. Four are enough: over 350 cases drawn by seed, the best
 * of a longer list in each (a timeout of 0.3 of the SLO, parts of `deferred+` switched off one by one) earns 0.05 % more.
 * All give up who would make batches small: who does not collapses when pressed, and a rehearsal sees that too late.
 */
export const WAYS: readonly Way[] = [
  {
    name: "deferred",
    hasParts: false,
    rulesOf: (own) => ({ ...own, opens: "frontrun", drop: "window", plus: null }),
  },
  { name: "own", hasParts: true, rulesOf: (own) => own },
  { name: "eager", hasParts: false, rulesOf: (own) => ({ ...own, opens: "eager", drop: "window", plus: null }) },
  {
    name: "timeout",
    hasParts: false,
    rulesOf: (own, sloUs) => ({
      ...own,
      opens: "timeout",
      timeoutUs: Math.round(0.1 * sloUs),
      drop: "window",
      plus: null,
    }),
  },
  {
    name: "groups",
    needsKinds: true,
    hasParts: false,
    // Whoever is served by kind waits for nothing; beside that a model without kinds that waits finds all taken.
    rulesOf: (own) => ({ ...own, opens: "eager", drop: "window", plus: null, groups: true }),
  },
];

/** Those that need no kinds, which come first. */
export const PLAIN_WAYS = WAYS.filter(({ needsKinds }) => !needsKinds).length;

/** As queues are configured. */
export const OWN_WAY = WAYS.findIndex(({ name }) => name === "own");
