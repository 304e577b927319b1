/** A pipeline held against the models and steps that it runs: where each tensor comes from, and whether it fits where it goes. */
import { sloUsFromMs, workUsFromMs } from "../../../core/time.js";
import type { BudgetSpec } from "../../../system/budget/budget-spec.js";
import type { ModelSpec } from "../../model.js";
import { budgetSpec } from "../../pipeline-modules.js";
import { type EndSpec, plain } from "./module-tensors.js";
import type { PipelineFile, ReadPipeline } from "./pipeline-file.js";
import { type NamedEnds, type PipelineSpec, runOf, type ServedModule, type StepSpec } from "./served-pipeline.js";
import { stepReference } from "./step-fields.js";
import { TensorResolver } from "./tensor-resolver.js";

/**
 * @param folder of its file. @param modelOf the model of a name, or why it cannot be had.
 * @param policyOf of the group that a model of this name runs on; null: the group has none.
 * @throws ModelFileError listing every problem; those between two ends name both.
 */
export function resolvePipeline(
  name: string,
  folder: string,
  read: ReadPipeline,
  modelOf: (name: string) => ModelSpec | string,
  policyOf: (model: string) => string | null,
): PipelineSpec {
  const { file } = read;
  const resolver = new TensorResolver(read, modelOf);
  const modules = file.modules.map((written, module) => ({
    ...resolver.specs[module]!,
    model: written.step === undefined ? (written.model ?? written.name) : "",
    step: stepOf(written, resolver.tensors[module]!),
    inputs: resolver.inputsOf(module),
    fanOut: resolver.partsOf(module),
    branch: resolver.branchOf(module),
    defaults: resolver.defaultsOf(module),
  }));
  const outputs = resolver.outputs();
  const inputs = resolver.requestInputs();
  resolver.throwIfAny();
  const taken = (index: number): string[] => {
    const ends = [
      ...[...modules.flatMap((other) => other.inputs), ...outputs].flatMap(({ from }) => from),
      ...modules.flatMap(({ fanOut }) => fanOut),
    ];
    const own = modules[index]!.branch;
    const names = ends.filter(({ module }) => module === index).map(({ tensor }) => tensor);
    return [...new Set([...names, ...(own === null ? [] : [own.tensor])])];
  };
  const served = modules.map((module, index) => ({ ...module, outputs: taken(index) }));
  const budget = budgetSpec(
    file.budget,
    served.flatMap(({ model, step }) => (step === null ? policyOf(model) : [])),
  );
  return {
    client: clientOf(name, folder, file, budget, served, inputs, outputs),
    modules: served,
    budget,
    outputs,
    requestsMax: file.queue.requests_max,
    bytesMax: file.queue.bytes_max,
    partsMax: file.queue.parts_max,
    steps: {
      threads: file.steps.threads,
      queueMax: file.steps.queue_max,
      timeoutUs: sloUsFromMs(file.steps.timeout_ms),
      memoryMb: file.steps.memory_mb,
    },
  };
}

function clientOf(
  name: string,
  folder: string,
  file: PipelineFile,
  budget: BudgetSpec,
  modules: readonly ServedModule[],
  inputs: readonly EndSpec[],
  outputs: readonly NamedEnds[],
): ModelSpec {
  const sloUs = sloUsFromMs(file.slo_ms);
  return {
    name,
    version: "1",
    versions: ["1"],
    platform: "rubato_pipeline",
    file: null,
    folder,
    inputs,
    outputs: outputs.map(({ name: output, spec }) => plain(output, spec, false)),
    batchSizeMax: 0,
    batchSizeFixed: null,
    sloUs,
    defaultTimeoutUs: sloUs,
    timeoutMaxUs: sloUsFromMs(file.timeout_max_ms),
    policy: "",
    policyOptions: {},
    group: "",
    queueRequestsMax: file.queue.requests_max,
    queueBytesMax: file.queue.bytes_max,
    emulated: null,
    apps: [],
    parameters: {
      "rubato.budget": budget.rule,
      "rubato.modules": modules.map((module) => `${module.name} (${runOf(module)})`).join(", "),
    },
  };
}

function stepOf(
  { step, time_ms: timeMs }: PipelineFile["modules"][number],
  tensors: { readonly inputs: readonly EndSpec[]; readonly outputs: readonly EndSpec[] } | null,
): StepSpec | null {
  if (step === undefined || tensors === null) return null;
  const { inputs, outputs } = tensors;
  return {
    reference: step,
    ...stepReference(step)!,
    inputs,
    outputs,
    timeUs: timeMs === undefined ? null : workUsFromMs(timeMs),
  };
}
