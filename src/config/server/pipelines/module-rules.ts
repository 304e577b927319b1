/** Rules between the fields of one module of a served pipeline, which its schema cannot say. */
import type { FieldPath } from "../../config-error.js";
import type { IssueList } from "../../source.js";
import type { PipelineFile } from "./pipeline-file.js";
import { stepReference } from "./step-fields.js";

type WrittenModule = PipelineFile["modules"][number];

export function checkModules({ modules }: PipelineFile, issues: IssueList): void {
  for (const [index, module] of modules.entries()) {
    const at = (...field: FieldPath): FieldPath => ["modules", index, ...field];
    const title = `${module.id} (${module.name})`;
    checkStep(module, title, at, issues);
    checkBranch(module, title, at, issues);
    checkDefaults(module, title, at, issues);
    if (module.soft && module.branch !== undefined && module.defaults?.[module.branch.tensor] === undefined)
      issues.add(
        at("branch"),
        `of soft module ${title} must go by an output that has a default; was '${module.branch.tensor}'`,
      );
  }
}

type At = (...field: FieldPath) => FieldPath;

function checkStep(module: WrittenModule, title: string, at: At, issues: IssueList): void {
  const { step, model, gives } = module;
  if (step === undefined) {
    for (const field of ["takes", "gives", "time_ms"] as const)
      if (module[field] !== undefined) issues.add(at(field), `of module ${title} goes only with step`);
    return;
  }
  if (model !== undefined) issues.add(at("step"), `of module ${title} must not stand beside model; was ${step}`);
  if (stepReference(step) === null)
    issues.add(
      at("step"),
      `of module ${title} must be ./FILE.mjs or ./FILE.mjs#NAME (.js, .cjs) within the pipeline's folder; was ${step}`,
    );
  if (gives === undefined || Object.keys(gives).length === 0)
    issues.add(at("gives"), `of module ${title} must name at least one output of the step; was missing`);
  for (const [name, { datatype, list, shape }] of Object.entries({ ...module.takes, ...gives }))
    if (shape.length === 0 && list)
      issues.add(
        at(module.takes?.[name] === undefined ? "gives" : "takes", name, "shape"),
        `of a list of ${datatype} must have a first axis; was []`,
      );
}

function checkBranch({ branch, subs }: WrittenModule, title: string, at: At, issues: IssueList): void {
  if (branch === undefined) return;
  if (subs === undefined) {
    issues.add(at("subs"), `of module ${title} is required beside branch, which goes by its order; was missing`);
    return;
  }
  const { above } = branch;
  if (above === undefined) return;
  const bounds = typeof above === "number" ? [above] : above;
  if (bounds.length !== subs.length - 1)
    issues.add(
      at("branch", "above"),
      `of module ${title} must have one number less than there are subs (${subs.length}); has ${bounds.length}`,
    );
  const falls = bounds.findIndex((bound, index) => index > 0 && bound <= bounds[index - 1]!);
  if (falls > 0) issues.add(at("branch", "above", falls), `must be above the number before it; was ${bounds[falls]}`);
}

function checkDefaults({ defaults, soft }: WrittenModule, title: string, at: At, issues: IssueList): void {
  if (defaults === undefined) return;
  if (!soft) issues.add(at("defaults"), `of module ${title} goes only with soft: it is never missing`);
  for (const [name, { shape, data, value }] of Object.entries(defaults)) {
    const count = shape.reduce((product, extent) => product * extent, 1);
    const own = at("defaults", name);
    if ((data === undefined) === (value === undefined)) issues.add(own, "must have one of value and data");
    else if (data !== undefined && data.length !== count)
      issues.add([...own, "data"], `must have as many elements as shape [${shape}] (${count}); has ${data.length}`);
    else if (count > ELEMENTS_MAX)
      issues.add([...own, "shape"], `must have at most ${ELEMENTS_MAX} elements; was [${shape}]`);
  }
}

/** Of a default tensor. */
const ELEMENTS_MAX = 16_777_216;
