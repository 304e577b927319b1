import type { ScaleAdvice } from "../scaling/advisor.js";

/** One group as metrics and KEDA see it. */
export interface GroupScaling {
  readonly group: string;
  /** The advice is followed. */
  readonly acts: boolean;
  /** Accelerators there should be. */
  readonly advice: number;
  /** Accelerators that take batches now. */
  readonly serving: number;
  /** Accelerators that the group has by its configuration. */
  readonly configured: number;
  /** It has had requests of late. */
  readonly isActive: boolean;
  /** Null before the first decision. */
  readonly last: ScaleAdvice | null;
  /** Decisions that raised and that lowered the advice. */
  readonly raised: number;
  readonly lowered: number;
}
