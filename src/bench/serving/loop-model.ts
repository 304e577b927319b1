/**
 * A model whose time is what its input says: where a walker is after so many steps on a graph. Members of a batch may take
 * different numbers of steps; the loop runs for the longest, and who has arrived stays. An answer never depends on who
 * shares the batch.
 */
import { stream } from "../../sim/random.js";
import { buildOnnx } from "./onnx-builder.js";

/** TensorProto.DataType */
const FLOAT = 1;
const INT64 = 7;
const BOOL = 9;
const SEED = 1;

export const LOOP = {
  /** Of the graph that is walked on. */
  places: 192,
  /** Further ones are not taken. */
  stepsMax: 512,
} as const;

/** Row by row, the probabilities of where a step leads from each place. The same for the same seed. */
export function drawnSteps(): Float32Array {
  const { places } = LOOP;
  const random = stream(SEED, "loop");
  const rows = new Float32Array(places * places);
  for (let from = 0; from < places; from++) {
    const row = Float64Array.from({ length: places }, () => square(square(square(random()))));
    const sum = row.reduce((total, value) => total + value, 0);
    for (let to = 0; to < places; to++) rows[from * places + to] = row[to]! / sum;
  }
  return rows;
}

/** start[b, 192], probabilities of where the walker starts, and steps[b, 1] of int64 -> end[b, 192], of where it is then. */
export function loopModel(): Buffer {
  const { places, stepsMax } = LOOP;
  const walkers = (name: string) => ({ name, type: FLOAT, dims: ["batch", places] });
  return buildOnnx({
    inputs: [walkers("start"), { name: "steps", type: INT64, dims: ["batch", 1] }],
    outputs: [walkers("end")],
    nodes: [
      { op: "Min", inputs: ["steps", "steps_max"], outputs: ["own_steps"] },
      { op: "ReduceMax", inputs: ["own_steps"], outputs: ["longest"], attributes: { keepdims: 0 } },
      {
        op: "Loop",
        inputs: ["longest", "", "start"],
        outputs: ["end"],
        graphs: {
          body: {
            inputs: [
              { name: "step", type: INT64, dims: [] },
              { name: "goes_on", type: BOOL, dims: [] },
              walkers("here"),
            ],
            outputs: [{ name: "goes_on_still", type: BOOL, dims: [] }, walkers("there")],
            nodes: [
              { op: "Identity", inputs: ["goes_on"], outputs: ["goes_on_still"] },
              { op: "MatMul", inputs: ["here", "graph"], outputs: ["next"] },
              { op: "Less", inputs: ["step", "own_steps"], outputs: ["walks"] },
              { op: "Where", inputs: ["walks", "next", "here"], outputs: ["there"] },
            ],
          },
        },
      },
    ],
    initializers: [
      { name: "graph", dims: [places, places], floats: drawnSteps() },
      { name: "steps_max", dims: [], ints: [stepsMax] },
    ],
  });
}

/** Not a power: its last bit is the platform's. */
const square = (value: number): number => value * value;
