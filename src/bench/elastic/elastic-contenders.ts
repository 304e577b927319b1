/** Who is compared on an elastic model, and the repository that holds it once for each of them. */
import { cpSync } from "node:fs";
import path from "node:path";
import { type ModelSource, writePolicyModels } from "../serving/policy-models.js";

export interface ElasticContender {
  readonly name: string;
  /** Of its group, which chooses gammas; null: none, all batches run with gamma 0. */
  readonly policy: { readonly name: string; readonly options?: Readonly<Record<string, unknown>> } | null;
  /** Of its model, where the group has none; null: the server's own. */
  readonly modelPolicy: string | null;
  /** The one gamma that it runs with, of those of which the best is taken by hindsight; null: it is none of them. */
  readonly gamma: number | null;
}

const chooser = (name: string, policy: string, options?: Readonly<Record<string, unknown>>): ElasticContender => ({
  name,
  policy: { name: policy, ...(options && { options }) },
  modelPolicy: null,
  gamma: null,
});

/** What the server does when nobody chooses. */
export const DEFAULT: ElasticContender = { name: "default", policy: null, modelPolicy: null, gamma: null };
/** Deadline order, and who cannot be in time is dropped; one of the fixed gammas, too. */
export const PLAIN: ElasticContender = { name: "gamma 0", policy: null, modelPolicy: "deferred", gamma: 0 };
/** As published, its options as they are by default. */
export const OTAS = chooser("otas", "otas");
/** As the simulated evaluation has it past the paper: plans that are exact where they can be, from the first batches on. */
export const EXACT = chooser("otas-exact", "otas", { allocator: "frontier", beta: 0, initial_s: 0 });
export const QUEUE = chooser("queue-gamma", "queue-gamma");

/** In every pair; gains are those of the first three. */
export const COMMON: readonly ElasticContender[] = [DEFAULT, OTAS, EXACT, PLAIN, QUEUE];
export const JUDGED: readonly ElasticContender[] = [DEFAULT, OTAS, EXACT];

/** One gamma for all, each of the model's, with deadline order and dropping of who cannot be in time; leaving late and at once. */
export const fixedContenders = (gammas: readonly number[]): ElasticContender[] =>
  ["deferred", "eager"].flatMap((dispatch) =>
    gammas
      // That is PLAIN.
      .filter((gamma) => gamma !== 0 || dispatch !== "deferred")
      .map((gamma) => ({
        ...chooser(`fixed ${gamma}${dispatch === "eager" ? " eager" : ""}`, "fixed-gamma", { gamma, dispatch }),
        gamma,
      })),
  );

/** Of its group and its model. */
export const groupOf = ({ name }: ElasticContender): string => name.replace("-", "minus-").replaceAll(" ", "-");

/** One accelerator, as the paper has it; the other core is the server's and its client's. */
export const WORKER = { kind: "onnx", count: 1, threads: 1 } as const;

export const groupConfig = ({ policy }: ElasticContender): object => ({
  ...WORKER,
  ...(policy && { policy: policy.name, policy_options: policy.options ?? {} }),
});

/** What waits is the policies' choice, not that of a limit. */
const QUEUE_LIMITS = { requests_max: 100_000 };

/** @param model folder of the elastic model, for its tasks. @param profile file of a measured one. */
export function writeElastic(
  repository: string,
  model: string,
  source: ModelSource,
  contenders: readonly ElasticContender[],
  sloMs: number,
  profile: string,
): void {
  const limited = { ...source, settings: { ...source.settings, queue: QUEUE_LIMITS } };
  for (const contender of contenders) {
    const name = groupOf(contender);
    const named = { name, group: name, policy: contender.modelPolicy, policyOptions: {} };
    writePolicyModels(repository, limited, [named], sloMs, profile);
    cpSync(path.join(model, "tasks"), path.join(repository, name, "tasks"), { recursive: true });
  }
}
