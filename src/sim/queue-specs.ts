import type { ExpandedModel } from "../config/scenario/expand-scenario.js";
import { ProfiledLatency } from "../core/latency/latency.js";
import type { KindTimes, QueueSpec } from "../core/policy.js";

/** Waiting requests beyond which a simulated queue is full; far above what deadlines let wait. */
const QUEUE_LENGTH_MAX = 1_000_000;

/**
 * What the queues of a model are told: one queue, or with sessions one for each of its apps.
 * @param profiled what is known of its apps beforehand; undefined: nothing.
 */
export function queueSpecs(
  { batchTime, elastic, execUs, planning, sloUs }: ExpandedModel,
  profiled: readonly KindTimes[] | undefined,
): QueueSpec[] {
  const others = profiled?.map((kind) => ({ ...kind, share: 0 }));
  const known = (app: number): Pick<QueueSpec, "kinds" | "batchTime"> => {
    if (profiled === undefined) return {};
    const kinds = planning?.sessions ? others!.with(app, { ...profiled[app]!, share: 1 }) : profiled;
    return batchTime === undefined ? { kinds } : { kinds, batchTime };
  };
  return (planning?.execUs ?? [execUs]).map((table, app) => ({
    latency: new ProfiledLatency(table),
    sloUs,
    lengthMax: QUEUE_LENGTH_MAX,
    ...known(app),
    ...(elastic === undefined ? {} : { elastic }),
  }));
}
