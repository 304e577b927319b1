/**
 * A model in which batching pays on a CPU: a recurrent network, whose weights are read anew at every step and are larger
 * than a core's cache. A batch reads them once for all its members, so that what a run costs is mostly what it costs whatever
 * its size. It suggests the next word of a text from its last words, as keyboards do: an embedding, an LSTM, a row of
 * scores over the vocabulary.
 *
 * The weights are drawn by a seed, not learnt: what it suggests is nothing, how long it takes is what a learnt one takes.
 */
import { stream } from "../../sim/random.js";
import { buildOnnx, type OnnxGraph } from "./onnx-builder.js";

/** TensorProto.DataType */
const FLOAT = 1;
const INT64 = 7;
const SEED = 1;

export interface RecurrentSize {
  /** Words that it looks back: steps of the recurrence. */
  readonly steps: number;
  readonly vocabulary: number;
  readonly embedding: number;
  readonly hidden: number;
}

/** 38 MB of weights that every step reads (4 h h), 73 MB in all. */
export const RECURRENT: RecurrentSize = { steps: 4, vocabulary: 4096, embedding: 256, hidden: 1536 };

/** ids[b, steps] of int64 below the vocabulary -> scores[b, vocabulary]. The same bytes for the same size. */
export function recurrentModel(size: RecurrentSize = RECURRENT): Buffer {
  const { steps, vocabulary, embedding, hidden } = size;
  // Gates neither saturated nor denormal, whatever the width: sums of `hidden` terms stay near 1.
  const bound = 1 / Math.sqrt(hidden);
  const weights = (name: string, dims: readonly number[]) => ({ name, dims, floats: drawn(name, dims, bound) });
  const graph: OnnxGraph = {
    inputs: [{ name: "ids", type: INT64, dims: ["batch", steps] }],
    outputs: [{ name: "scores", type: FLOAT, dims: ["batch", vocabulary] }],
    nodes: [
      { op: "Transpose", inputs: ["ids"], outputs: ["steps"], attributes: { perm: [1, 0] } },
      { op: "Gather", inputs: ["embeddings", "steps"], outputs: ["words"] },
      { op: "LSTM", inputs: ["words", "w", "r"], outputs: ["", "last"], attributes: { hidden_size: hidden } },
      { op: "Squeeze", inputs: ["last", "direction"], outputs: ["state"] },
      { op: "MatMul", inputs: ["state", "head"], outputs: ["scores"] },
    ],
    initializers: [
      weights("embeddings", [vocabulary, embedding]),
      weights("w", [1, 4 * hidden, embedding]),
      weights("r", [1, 4 * hidden, hidden]),
      weights("head", [hidden, vocabulary]),
      { name: "direction", dims: [1], ints: [0] },
    ],
  };
  return buildOnnx(graph);
}

function drawn(name: string, dims: readonly number[], bound: number): Float32Array {
  const random = stream(SEED, `recurrent/${name}`);
  const values = new Float32Array(dims.reduce((product, extent) => product * extent, 1));
  for (let i = 0; i < values.length; i++) values[i] = bound * (2 * random() - 1);
  return values;
}
