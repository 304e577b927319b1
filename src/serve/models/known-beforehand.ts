import { variantOf } from "../../config/elastic.js";
import type { ElasticProfile } from "../../core/latency/elastic.js";
import { measuredTable } from "../../core/latency/latency.js";
import type { KindTimes, QueueSpec } from "../../core/policy.js";
import type { ServedModel } from "./served-model.js";

/**
 * What a policy may choose from for batches of an elastic model, and how often its tasks are right; undefined: it is not elastic.
 *
 * @param rows of a request. @param sizeMax requests of the largest batch.
 */
export function elasticBeforehand(
  { spec, times, tasks }: ServedModel,
  rows: number,
  extent: number | null,
  sizeMax: number,
): ElasticProfile | undefined {
  const { elastic, dynamicMemoryMb } = spec;
  if (elastic === undefined || tasks === null) return undefined;
  const variants = elastic.gammas.map((gamma, index) => ({
    name: String(gamma),
    gamma,
    family: 0,
    execUs: measuredTable(times.ofVariant(index + 1).table(rows, extent, sizeMax)),
    loadUs: 0,
    runMb: (dynamicMemoryMb ?? 0) / sizeMax,
  }));
  return { variants, plain: variantOf(elastic, elastic.gamma) - 1, accuracy: tasks.accuracies };
}

/**
 * What the profile says of a queue's kinds before its first request. Of a queue for one size that is what a request of the default
 * kind takes alone; where sizes share batches, what one of each size takes, and what a batch costs whatever is in it. Apps
 * are not known: until they are measured they are like all together.
 *
 * @param extent of the queue's requests; null: of any size, or there is none.
 */
export function knownBeforehand(
  { apps, areSizesTogether, times }: ServedModel,
  rows: number,
  extent: number | null,
): Required<Pick<QueueSpec, "kinds">> & Pick<QueueSpec, "batchTime"> {
  if (!areSizesTogether) return { kinds: [{ name: "", share: 1, aloneUs: times.sample(rows, extent) }] };
  const sizes = apps.kindNames.map((_, kind) => apps.sizeOf(kind));
  const share = 1 / sizes.filter((size) => size !== null).length;
  const kinds = sizes.map(
    (size, kind): KindTimes => ({
      name: apps.kindNames[kind]!,
      share: size === null ? 0 : share,
      aloneUs: size === null ? new Float64Array() : times.sample(rows, size),
    }),
  );
  return { kinds, batchTime: { c0Us: times.costUs(rows), c1: 1 } };
}
