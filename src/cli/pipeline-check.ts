/** What of a pipeline can be known before it is served, beyond what its tensors say: of its steps' files, and of how it branches. */
import path from "node:path";
import type { PipelineSpec, StepSpec } from "../config/server/pipelines/served-pipeline.js";
import { missingExport, syntaxFault } from "../serve/pipelines/step-exports.js";
import { missingImports } from "../serve/pipelines/step-imports.js";
import type { LocatedIssue } from "./repository-check.js";

/** What Node would say when it loads the steps: of syntax and imports once for each file, of exports for each step. Nothing is run. */
export function stepProblems({ client: { name, folder }, modules }: PipelineSpec): LocatedIssue[] {
  const steps = modules.flatMap(({ step }) => step ?? []);
  return [...new Set(steps.map(({ file }) => file))].flatMap((file) => {
    const full = path.join(folder, file);
    const fault = syntaxFault(full);
    if (fault !== null) return [{ file: full, line: fault.line, field: name, message: `step file: ${fault.message}` }];
    const own = steps.filter((step) => step.file === file);
    return [...importProblems(name, file, full), ...exportProblems(name, full, own)];
  });
}

const importProblems = (name: string, file: string, full: string): LocatedIssue[] =>
  missingImports(full).map((specifier) => ({
    line: null,
    field: name,
    message: `step ${file} must import what is there; '${specifier}' is neither beside it nor in a node_modules from its folder upwards`,
  }));

const exportProblems = (pipeline: string, full: string, steps: readonly StepSpec[]): LocatedIssue[] =>
  [...new Map(steps.map((step) => [step.reference, step])).values()].flatMap(({ reference, name }) => {
    const why = missingExport(full, name);
    return why === null
      ? []
      : [{ file: full, line: null, field: pipeline, message: `step ${reference}: the file ${why}` }];
  });

/** What goes by a position must give whole numbers; that a tensor of fractions always does nobody can know. */
export const positionWarnings = ({ client: { name: pipeline }, modules }: PipelineSpec): string[] =>
  modules.flatMap(({ name, branch }) =>
    branch === null || branch.above !== null || !FRACTIONS.includes(branch.datatype)
      ? []
      : `${pipeline}: module ${name} branches by output '${branch.tensor}' as a position, 0, 1, ..., but it is ${branch.datatype}: a request whose element is no whole number fails; say branch.above to go by a number`,
  );

const FRACTIONS = ["FP16", "BF16", "FP32", "FP64"];
