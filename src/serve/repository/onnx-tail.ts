import type { OnnxHeader, OnnxValue } from "./onnx-header.js";

/** What a model and its tail are together: the tail's outputs in place of those that it takes. Problems are added to the list. */
export function headerWithTail(model: OnnxHeader, tail: OnnxHeader, field: string, problems: string[]): OnnxHeader {
  const fault = (what: string): number => problems.push(`${field}: ${what}`);
  if (tail.opset !== model.opset) fault(`must be of the model's operator set ${model.opset}; is of ${tail.opset}`);
  // Both are joined in memory, which has no folder where the runtime would look for weights.
  const weights = [...model.weightFiles, ...tail.weightFiles];
  if (weights.length > 0) fault(`must be absent where weights lie in files of their own; there is ${weights[0]}`);
  for (const input of tail.inputs) {
    const output = model.outputs.find(({ name }) => name === input.name);
    if (output === undefined)
      fault(
        `input '${input.name}' must be an output of the model: ${model.outputs.map(({ name }) => name).join(", ")}`,
      );
    else if (!fits(input, output))
      fault(`input '${input.name}' must be ${shown(output)}, as the model gives it; is ${shown(input)}`);
  }
  const isTaken = ({ name }: OnnxValue): boolean => tail.inputs.some((input) => input.name === name);
  const kept = model.outputs.filter((output) => !isTaken(output));
  const twice = tail.outputs.find(({ name }) => model.outputs.some((output) => output.name === name));
  if (twice !== undefined) fault(`output '${twice.name}' must have another name: the model gives one of that name`);
  return { ...model, outputs: [...kept, ...tail.outputs] };
}

const fits = (input: OnnxValue, output: OnnxValue): boolean =>
  input.datatype === output.datatype &&
  (input.dims === null ||
    output.dims === null ||
    (input.dims.length === output.dims.length &&
      input.dims.every(
        (dim, axis) => typeof dim === "string" || typeof output.dims![axis] === "string" || dim === output.dims![axis],
      )));

const shown = ({ datatype, dims }: OnnxValue): string =>
  `${datatype} [${dims === null ? "?" : dims.map((dim) => (typeof dim === "number" ? dim : -1))}]`;
