/** What a module does with its own outputs: the way it chooses by one, and what stands for them where it is missing. */
import type { FieldPath } from "../../config-error.js";
import type { IssueList } from "../../source.js";
import { elementProblem } from "./default-tensors.js";
import { fits, hint, type ModuleTensors, plain, textOf } from "./module-tensors.js";
import type { PipelineFile } from "./pipeline-file.js";
import type { BranchSpec, DefaultTensor } from "./served-pipeline.js";

type WrittenModule = PipelineFile["modules"][number];

/** @param at of the module. @returns null: it leads to all of its subs. */
export function branchOf(
  { branch, id, name: own }: WrittenModule,
  { outputs, whose }: ModuleTensors,
  at: FieldPath,
  issues: IssueList,
): BranchSpec | null {
  if (branch === undefined) return null;
  const { tensor, element, above } = branch;
  const title = `of module ${id} (${own})`;
  const spec = outputs.find(({ name }) => name === tensor);
  const names = outputs.map(({ name }) => name);
  if (spec === undefined)
    issues.add(
      [...at, "branch", "tensor"],
      `${title} must be an output of ${whose} (${names.join(", ")}); was ${tensor}${hint(tensor, names)}`,
    );
  else if (spec.list === true || spec.datatype === "BYTES")
    issues.add(
      [...at, "branch", "tensor"],
      `${title} must be numbers to choose by; was output '${spec.name}': ${textOf(spec)}`,
    );
  else if (element >= mostElements(plain(spec.name, spec, false).shape))
    issues.add(
      [...at, "branch", "element"],
      `${title} must be below the ${mostElements(plain(spec.name, spec, false).shape)} elements of output '${spec.name}': ${textOf(spec)}; was ${element}`,
    );
  const datatype = spec?.datatype ?? "";
  return { tensor, datatype, element, above: above === undefined ? null : typeof above === "number" ? [above] : above };
}

const mostElements = (shape: readonly number[]): number =>
  shape.reduce((product, extent) => product * (extent === -1 ? Number.POSITIVE_INFINITY : extent), 1);

/** @param at of the module. */
export function defaultsOf(
  { defaults = {}, id, name: own }: WrittenModule,
  { outputs, whose }: ModuleTensors,
  at: FieldPath,
  issues: IssueList,
): DefaultTensor[] {
  const title = `of module ${id} (${own})`;
  return Object.entries(defaults).flatMap(([name, { shape, data, value }]) => {
    const place: FieldPath = [...at, "defaults", name];
    const names = outputs.map((output) => output.name);
    const spec = outputs.find((output) => output.name === name);
    if (spec === undefined) {
      issues.add(
        place,
        `${title} must be an output of ${whose} (${names.join(", ")}); was ${name}${hint(name, names)}`,
      );
      return [];
    }
    if (!fits(spec, { ...plain(name, spec, false), shape, list: false }))
      issues.add([...place, "shape"], `${title} must fit its output '${name}': ${textOf(spec)}; was [${shape}]`);
    const problem = elementProblem(spec.datatype, data ?? [value]);
    if (problem !== null) issues.add([...place, data === undefined ? "value" : "data"], `${title} ${problem}`);
    const count = shape.reduce((product, extent) => product * extent, 1);
    const elements = data ?? new Array<number | boolean | string>(count).fill(value!);
    return [{ name, datatype: spec.datatype, shape, data: elements }];
  });
}
