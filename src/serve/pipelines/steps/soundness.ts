/** Whether what a thread's own code stands on is still there: steps share the objects of their thread with it, and may break them. */
import type { EndSpec } from "../../../config/server/pipelines/module-tensors.js";
import type { Tensor } from "../../../wire/tensors/tensor.js";
import type { NamedValue } from "./step-pool.js";
import { fromStep, movable, type StepTensor, toStep } from "./step-tensors.js";

const spec = (name: string, datatype: string, shape: readonly number[], list = false): EndSpec => ({
  name,
  datatype,
  shape,
  batchAxis: null,
  variable: null,
  optional: false,
  list,
});
const SPECS = [spec("a", "FP32", [2]), spec("b", "BYTES", [1]), spec("c", "INT32", [-1], true)];
const numbers: Tensor = { name: "a", datatype: "FP32", shape: [2], data: new Uint8Array([0, 0, 128, 63, 0, 0, 0, 64]) };
const text: Tensor = { name: "b", datatype: "BYTES", shape: [1], data: new Uint8Array([1, 0, 0, 0, 120]) };
const item: Tensor = { name: "c", datatype: "INT32", shape: [1], data: new Uint8Array([5, 0, 0, 0]) };
const SAMPLE: readonly NamedValue[] = [
  { name: "a", value: numbers },
  { name: "b", value: text },
  { name: "c", value: [item, item] },
];

/** As most steps return them. */
const bare = ({ shape, data }: StepTensor): object => ({ shape, data });

/** A few tensors go the way of any run's: what cannot come back as it was would fail every run from now on. */
export function isSound(): boolean {
  try {
    const { a: one, b: other, c: list } = toStep(SAMPLE) as Readonly<Record<string, StepTensor>>;
    const [item1, item2] = list as unknown as readonly StepTensor[];
    const returned = { a: bare(one!), b: bare(other!), c: [bare(item1!), bare(item2!)] };
    const { values, buffers } = movable(fromStep(returned, SPECS));
    const [a, b, c] = values;
    const [first, second] = c!.value as readonly Tensor[];
    const isWhole = values.length === 3 && buffers.length === 4;
    return (
      isWhole && isSame(a!.value, numbers) && isSame(b!.value, text) && isSame(first, item) && isSame(second, item)
    );
  } catch {
    return false;
  }
}

/** By nothing that could be broken. */
function isSame(value: unknown, { name, datatype, data }: Tensor): boolean {
  const other = value as Tensor;
  if (other.name !== name || other.datatype !== datatype || other.data.length !== data.length) return false;
  for (let at = 0; at < data.length; at++) if (other.data[at] !== data[at]) return false;
  return true;
}
