/** The tensors that requests of a pipeline bring: all that modules take of them. */
import type { FieldPath } from "../../config-error.js";
import type { IssueList } from "../../source.js";
import { type EndSpec, fits, plain, textOf } from "./module-tensors.js";
import type { TensorEnd } from "./served-pipeline.js";

/** A tensor, and the first module that takes it. */
interface RequestInput {
  readonly spec: EndSpec;
  readonly taker: string;
}

/** Collected as takers are found; what two of them cannot both have is an issue. */
export class RequestInputs {
  private readonly titleOf: (module: number) => string;
  private readonly issues: IssueList;
  private readonly inputs = new Map<string, RequestInput>();

  constructor(titleOf: (module: number) => string, issues: IssueList) {
    this.titleOf = titleOf;
    this.issues = issues;
  }

  specs(): EndSpec[] {
    if (this.inputs.size === 0 && this.issues.issues.length === 0)
      this.issues.add(["modules"], "must take an input of the request in at least one module; none does");
    return [...this.inputs.values()].map(({ spec }) => spec);
  }

  /** @param from of the request; several modules may take it. @param at where the file says so. */
  take(module: number, input: EndSpec, from: TensorEnd, at: FieldPath): void {
    const title = this.titleOf(module);
    if (input.list === true) {
      this.issues.add(
        at,
        `of module ${title}, ${textOf(input)}, must come from a module: clients send no lists; was the request's input '${from.tensor}'`,
      );
      return;
    }
    const taken = plain(from.tensor, input, input.optional);
    const own = from.rowUp < 0 ? taken : { ...taken, shape: [-1, ...taken.shape.slice(1)] };
    const taker = `${title} as '${input.name}'`;
    const known = this.inputs.get(from.tensor);
    if (known === undefined) {
      this.inputs.set(from.tensor, { spec: own, taker });
      return;
    }
    if (!fits(known.spec, own)) {
      this.issues.add(
        at,
        `of module ${title}, the request's input '${from.tensor}', must be ${textOf(input)}; module ${known.taker} takes it as ${textOf(known.spec)}`,
      );
      return;
    }
    const shape = known.spec.shape.map((extent, axis) => (extent === -1 ? own.shape[axis]! : extent));
    this.inputs.set(from.tensor, {
      spec: { ...known.spec, shape, optional: known.spec.optional && own.optional },
      taker: known.taker,
    });
  }
}
