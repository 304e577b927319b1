/** A pipeline as it is served: its modules, and where each tensor comes from. */
import type { DurationUs } from "../../../core/time.js";
import type { BudgetSpec } from "../../../system/budget/budget-spec.js";
import type { ModuleSpec } from "../../../system/pipeline.js";
import type { ModelSpec } from "../../model.js";
import type { EndSpec } from "./module-tensors.js";

/** Where a tensor comes from. */
export interface TensorEnd {
  /** Index of the module; REQUEST: it comes with the request. */
  readonly module: number;
  readonly tensor: string;
  /** How many fan-outs lie between the taker's part and the one that the tensor is of. */
  readonly up: number;
  /** Each part has its own row of it: that of the part so many fan-outs up; -1: the taker gets the whole. */
  readonly rowUp: number;
  /** Of all parts together that were made in this module; -1: of one. */
  readonly gatheredOf: number;
}
export const REQUEST = -1;

export interface NamedEnds {
  readonly name: string;
  /** The first that is there. */
  readonly from: readonly TensorEnd[];
  /** As a list. */
  readonly list: boolean;
  /** What it is by its taker: of no parts together there is nothing to see it from. */
  readonly spec: EndSpec;
}

export interface StepSpec {
  /** As written, for people. */
  readonly reference: string;
  /** Relative to the pipeline's folder, and what it exports. */
  readonly file: string;
  readonly name: string;
  readonly inputs: readonly EndSpec[];
  readonly outputs: readonly EndSpec[];
  /** What it takes, as its owner has it; null: nobody says. */
  readonly timeUs: DurationUs | null;
}

export interface BranchSpec {
  readonly tensor: string;
  readonly datatype: string;
  readonly element: number;
  /** Ascending; null: the element is the position. */
  readonly above: readonly number[] | null;
}

export interface DefaultTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: readonly (number | boolean | string)[];
}

export interface ServedModule extends ModuleSpec {
  /** "": it is a step. */
  readonly model: string;
  readonly step: StepSpec | null;
  readonly inputs: readonly NamedEnds[];
  /** What others take of its outputs; empty: nobody takes any. */
  readonly outputs: readonly string[];
  /** Where its parts come from; empty: it makes none. */
  readonly fanOut: readonly TensorEnd[];
  readonly branch: BranchSpec | null;
  /** What its takers get where it is missing. */
  readonly defaults: readonly DefaultTensor[];
}

export interface StepLimits {
  readonly threads: number;
  readonly queueMax: number;
  readonly timeoutUs: DurationUs;
  readonly memoryMb: number;
}

export interface PipelineSpec {
  /** As clients see it: a model that does not batch. */
  readonly client: ModelSpec;
  readonly modules: readonly ServedModule[];
  readonly budget: BudgetSpec;
  readonly outputs: readonly NamedEnds[];
  readonly requestsMax: number;
  readonly bytesMax: number;
  /** That one request may make. */
  readonly partsMax: number;
  readonly steps: StepLimits;
}

/** For people: what a module runs. */
export const runOf = ({ model, step }: ServedModule): string => step?.reference ?? model;
