/**
 * A model whose time depends on how hard its input is: a classifier in two stages, of which the second runs only if the
 * first is not sure of some member of the batch. Whoever the first was sure of keeps its answer, so that an answer
 * never depends on who shares the batch; the time of a batch is that of its hardest member.
 *
 * Each class is a cloud of templates around a centre. The first stage compares with the centres. The second looks for the
 * template, a step of a modern Hopfield network at a time (Ramsauer et al. 2020): x becomes the mean of all
 * templates, weighted by the softmax of their likeness to x. Nothing is trained: centres and templates are drawn by a seed.
 */
import { stream, type Uniform } from "../../sim/random.js";
import { buildOnnx, type OnnxGraph, type OnnxNode } from "./onnx-builder.js";

/** TensorProto.DataType */
const FLOAT = 1;
const SEED = 1;

/** How far templates lie from their centre, whose length is 1, before they are of length 1 again: cos 0.45 between the two. */
const SPREAD = 2;

export const EARLY_EXIT = {
  width: 64,
  classes: 16,
  /** Of each class. */
  templates: 32,
  /** Of the second stage. */
  steps: 256,
  /** Least probability that the first stage is sure with. */
  sure: 0.9,
} as const;

/** By class: its centre and its templates, of length 1. The same for the same seed. */
export function drawnClasses(): { readonly centre: Float32Array; readonly templates: readonly Float32Array[] }[] {
  const { classes, templates } = EARLY_EXIT;
  const random = stream(SEED, "early-exit");
  return Array.from({ length: classes }, () => {
    const centre = drawnUnit(random);
    return { centre, templates: Array.from({ length: templates }, () => near(centre, SPREAD, random)) };
  });
}

/** x[b, 64] of about length 1 -> classes[b, 16], probabilities. */
export function earlyExitModel(): Buffer {
  const { width, classes, templates, steps, sure } = EARLY_EXIT;
  const drawn = drawnClasses();
  const centres = Array.from(
    { length: width * classes },
    (_, at) => drawn[at % classes]!.centre[Math.floor(at / classes)]!,
  );
  const all = drawn.flatMap(({ templates: own }) => own.flatMap((template) => [...template]));
  const probabilities = (name: string) => ({ name, type: FLOAT, dims: ["batch", classes] });
  const secondStage: OnnxNode[] = [];
  let x = "x";
  let likeness = "";
  for (let step = 0; step < steps; step++) {
    likeness = `likeness_${step}`;
    secondStage.push(
      { op: "MatMul", inputs: [x, "keys"], outputs: [`scores_${step}`] },
      { op: "Softmax", inputs: [`scores_${step}`], outputs: [likeness] },
    );
    if (step === steps - 1) break;
    x = `x_${step}`;
    secondStage.push({ op: "MatMul", inputs: [likeness, "templates"], outputs: [x] });
  }
  secondStage.push(
    { op: "Reshape", inputs: [likeness, "by_class"], outputs: ["likeness_by_class"] },
    { op: "ReduceSum", inputs: ["likeness_by_class", "last"], outputs: ["second"], attributes: { keepdims: 0 } },
    { op: "Where", inputs: ["is_sure", "first", "second"], outputs: ["after_second"] },
  );
  const branch = (output: string, nodes: readonly OnnxNode[]): OnnxGraph => ({
    inputs: [],
    outputs: [probabilities(output)],
    nodes,
  });
  return buildOnnx({
    inputs: [{ name: "x", type: FLOAT, dims: ["batch", width] }],
    outputs: [probabilities("classes")],
    nodes: [
      // Of constants: the runtime does it once.
      { op: "Transpose", inputs: ["templates"], outputs: ["templates_across"], attributes: { perm: [1, 0] } },
      { op: "Mul", inputs: ["templates_across", "sharpness"], outputs: ["keys"] },
      { op: "Mul", inputs: ["centres", "sharpness_of_centres"], outputs: ["centre_keys"] },
      { op: "MatMul", inputs: ["x", "centre_keys"], outputs: ["centre_scores"] },
      { op: "Softmax", inputs: ["centre_scores"], outputs: ["first"] },
      { op: "ReduceMax", inputs: ["first"], outputs: ["best"], attributes: { axes: [1], keepdims: 1 } },
      { op: "GreaterOrEqual", inputs: ["best", "sure"], outputs: ["is_sure"] },
      { op: "ReduceMin", inputs: ["best"], outputs: ["least"], attributes: { keepdims: 0 } },
      { op: "GreaterOrEqual", inputs: ["least", "sure"], outputs: ["are_all_sure"] },
      {
        op: "If",
        inputs: ["are_all_sure"],
        outputs: ["classes"],
        graphs: {
          then_branch: branch("after_first", [{ op: "Identity", inputs: ["first"], outputs: ["after_first"] }]),
          else_branch: branch("after_second", secondStage),
        },
      },
    ],
    initializers: [
      { name: "centres", dims: [width, classes], floats: centres },
      { name: "templates", dims: [classes * templates, width], floats: all },
      { name: "sharpness_of_centres", dims: [], floats: [16] },
      { name: "sharpness", dims: [], floats: [32] },
      { name: "sure", dims: [], floats: [sure] },
      { name: "by_class", dims: [3], ints: [0, classes, templates] },
      { name: "last", dims: [1], ints: [2] },
    ],
  });
}

/** Of length 1, at most `spread` away from a vector of length 1 before its length is made 1 again. */
export function near(centre: Float32Array, spread: number, random: Uniform): Float32Array {
  const noise = drawnUnit(random);
  return unit(centre.map((value, at) => value + spread * noise[at]!));
}

const drawnUnit = (random: Uniform): Float32Array =>
  unit(Float32Array.from({ length: EARLY_EXIT.width }, () => 2 * random() - 1));

function unit(vector: Float32Array): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return vector.map((value) => value / length);
}
