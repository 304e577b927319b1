/** What the graph of an elastic model takes beside its images, held against what the server will give it. */
import {
  BOUND_INPUTS,
  CONFIDENCE,
  type ElasticFile,
  type ElasticSpec,
  LOGITS,
  promptSizes,
} from "../../config/elastic.js";
import type { OnnxHeader, OnnxValue } from "./onnx-header.js";

type Dims = readonly (number | string)[];

/**
 * The inputs that the server binds, taken out of those that clients give.
 *
 * @param field of `rubato.yaml`, for messages. @param problems those found are added.
 */
export function elasticGraph(
  file: ElasticFile,
  header: Pick<OnnxHeader, "inputs" | "outputs">,
  field: string,
  problems: string[],
): { readonly spec: ElasticSpec; readonly inputs: readonly OnnxValue[] } {
  const dims = new Map<string, Dims>();
  for (const [name, { datatype, rank }] of Object.entries(BOUND_INPUTS)) {
    const input = header.inputs.find((value) => value.name === name);
    if (input?.datatype !== datatype || input.dims?.length !== rank)
      problems.push(
        `${field}: the model file must have an input '${name}' of ${datatype} with ${rank} axes; was ${shownOf(input)}`,
      );
    dims.set(name, input?.dims ?? []);
  }
  const fixed = (name: string, axis: number): number => {
    const extent = dims.get(name)![axis];
    if (typeof extent === "number" && extent >= 1) return extent;
    if (extent !== undefined)
      problems.push(`${field}: axis ${axis} of input '${name}' must be a number in the model file; was '${extent}'`);
    return 1;
  };
  const logits = header.outputs.find((value) => value.name === LOGITS);
  if (logits?.datatype !== "FP32" || logits.dims?.length !== 2)
    problems.push(
      `${field}: the model file must have an output '${LOGITS}' of FP32 with 2 axes; was ${shownOf(logits)}`,
    );
  const inputs = header.inputs.filter(({ name }) => !Object.hasOwn(BOUND_INPUTS, name));
  if (inputs.length !== 1)
    problems.push(
      `${field}: the model file must have one more input, for clients; has ${inputs.map(({ name }) => name).join(", ") || "none"}`,
    );
  for (const { name, dims: own } of inputs)
    if (own === null || typeof own[0] === "number" || own.slice(1).some((extent) => typeof extent !== "number"))
      problems.push(
        `${field}: input '${name}' must have its batch on axis 0 and numbers on the others; has [${own?.join(", ") ?? "?"}]`,
      );
  const layers = fixed("prompts", 1);
  const width = fixed("prompts", 3);
  const deep = dims.get("heads")![1];
  if (typeof deep === "number" && deep !== width)
    problems.push(`${field}: axis 1 of input 'heads' must be ${width}, the width of 'prompts'; was ${deep}`);
  const classes = dims.get("heads")![2];
  if (typeof classes === "number" && classes < 2)
    problems.push(`${field}: axis 2 of input 'heads' must be at least 2 classes; was ${classes}`);
  const spec: ElasticSpec = {
    gammas: file.gammas,
    gamma: file.gamma,
    layers,
    width,
    classes: typeof classes === "number" ? classes : null,
    tasksMax: file.tasks_max,
    classesMax: typeof classes === "number" ? Math.min(classes, file.classes_max) : file.classes_max,
    taskBytesMax: Math.floor(file.task_mb_max * 1e6),
    imagesMax: file.images_max,
    utilityMax: file.utility_max,
    accuracyMin: file.accuracy_min,
    registers: file.registration,
    confidence: confidenceOf(file, header, field, problems),
  };
  const promptBytes = promptSizes(spec).reduce((sum, size) => sum + 4 * layers * size * width, 0);
  if (promptBytes > spec.taskBytesMax)
    problems.push(
      `${field}.task_mb_max: must be at least ${promptBytes / 1e6}, what prompts for its gammas take; was ${file.task_mb_max}`,
    );
  return { spec, inputs };
}

/** One that is named must be there and fit; another of that name is the model's own. */
function confidenceOf(
  { confidence }: ElasticFile,
  { outputs }: Pick<OnnxHeader, "outputs">,
  field: string,
  problems: string[],
): string | null {
  const output = outputs.find(({ name }) => name === (confidence ?? CONFIDENCE));
  if (output?.datatype === "FP32" && output.dims?.length === 1) return output.name;
  if (confidence !== undefined)
    problems.push(
      `${field}.confidence: the model file must have an output '${confidence}' of FP32 with 1 axis; was ${shownOf(output)}`,
    );
  return null;
}

const shownOf = (value: OnnxValue | undefined): string =>
  value === undefined ? "none" : `${value.datatype} [${value.dims?.join(", ") ?? "?"}]`;
