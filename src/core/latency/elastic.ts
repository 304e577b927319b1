/**
 * How much work each member of a batch gets, and what that does to its time and to its answer (OTAS: tokens added to or
 * removed from every layer of a transformer; or one of the models of a family, INFaaS). BatchTable.variant is an index into
 * `variants` plus 1; 0: nobody chose, which is `plain`.
 */

export interface Variant {
  /** As reports show it. */
  readonly name: string;
  /** Tokens added (> 0) or removed (< 0) in each layer. */
  readonly gamma: number;
  /** Which model of a family runs it; 0: the model itself. */
  readonly family: number;
  /** l(b) on an accelerator of scale 1; see linearTable. */
  readonly execUs: Float64Array;
  /** What an accelerator is blocked for before it runs this, where it held another model of the family, µs. */
  readonly loadUs: number;
  /** Megabytes that each member of a batch needs while it runs (OTAS Eq. 1c). */
  readonly runMb: number;
}

export interface ElasticProfile {
  readonly variants: readonly Variant[];
  /** Index of gamma 0 of the model itself. */
  readonly plain: number;
  /** By kind (task), then by variant: how often an answer is right, in [0, 1]. May grow while serving. */
  readonly accuracy: readonly ArrayLike<number>[];
}

/** @param variant of BatchTable. @returns index into `variants`. */
export const variantOf = (profile: ElasticProfile, variant: number): number =>
  variant === 0 ? profile.plain : variant - 1;
