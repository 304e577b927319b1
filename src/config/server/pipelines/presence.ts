/** Whether a tensor is there on every way that a request may take. */
import type { Pipeline } from "../../../system/pipeline.js";
import type { FieldPath } from "../../config-error.js";
import type { IssueList } from "../../source.js";
import type { EndSpec, ModuleTensors } from "./module-tensors.js";
import type { PipelineFile } from "./pipeline-file.js";
import { REQUEST, type TensorEnd } from "./served-pipeline.js";
import { WAYS_MAX, Ways, waysOf } from "./ways.js";

/** On every way one of the places has it, or it may be left out; what is not so is an issue. */
export class Presence {
  private readonly written: PipelineFile["modules"];
  private readonly tensors: readonly (ModuleTensors | null)[];
  private readonly titleOf: (module: number) => string;
  private readonly issues: IssueList;
  /** Null: too many to look at. */
  private readonly ways: Ways | null;

  constructor(
    written: PipelineFile["modules"],
    pipeline: Pipeline,
    tensors: readonly (ModuleTensors | null)[],
    titleOf: (module: number) => string,
    issues: IssueList,
  ) {
    this.written = written;
    this.tensors = tensors;
    this.titleOf = titleOf;
    this.issues = issues;
    const ways = waysOf(pipeline);
    if (ways > WAYS_MAX)
      issues.add(["modules"], `must branch into at most ${WAYS_MAX} ways in all; branch into ${ways}`);
    this.ways = ways > WAYS_MAX ? null : new Ways(pipeline);
  }

  /** @param module the taker; null: the pipeline's answer. @param at where the file says so. */
  check(module: number | null, input: EndSpec | null, ends: readonly TensorEnd[], at: FieldPath): void {
    if (input?.optional === true) return;
    const isSure = (end: TensorEnd): boolean => end.module === REQUEST || !this.mayBeMissing(end);
    const sure = ends.filter(isSure);
    if (sure.some((end) => end.module === REQUEST)) return;
    const missing = ends.find((end) => !isSure(end));
    if (sure.length === 0 && missing !== undefined) {
      const soft = this.titleOf(missing.module);
      this.issues.add(
        at,
        module === null
          ? `must not come from a soft module, which may be missing; was ${soft}, which has no default for '${missing.tensor}'`
          : `of module ${this.titleOf(module)} must be optional in ${this.tensors[module]!.whose}, since module ${soft} is soft and may be missing; or it needs a default for '${missing.tensor}'`,
      );
      return;
    }
    const whose = module === null ? "" : `of module ${this.titleOf(module)} `;
    const within = ends[0]!.gatheredOf;
    const way =
      this.ways?.without(
        module,
        sure.map((end) => end.module),
        within < 0 ? null : within,
      ) ?? -1;
    if (way < 0) return;
    const places = ends.map((end) => this.titleOf(end.module)).join(", ");
    const choices = this.ways!.describe(way, (each) => this.titleOf(each));
    this.issues.add(
      at,
      `${whose}must be there whichever way a request takes; comes from ${places}, passed over where ${choices}`,
    );
  }

  private mayBeMissing({ module, tensor }: TensorEnd): boolean {
    const { soft, defaults } = this.written[module]!;
    return soft && defaults?.[tensor] === undefined;
  }
}
