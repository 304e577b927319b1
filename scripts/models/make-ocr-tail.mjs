// Writes models/ocr-rec/best-class.onnx, the tail of the network that reads a line: of each step its best class and that one's probability.
//
//   npm run build && node scripts/models/make-ocr-tail.mjs
import { writeFileSync } from "node:fs";
import path from "node:path";
import { buildOnnx } from "../../dist/bench/serving/onnx-builder.js";
import { root } from "../ensure.mjs";

const [FLOAT, INT32] = [1, 6];
const [LAST, OPSET] = [2, 9];
const PROBABILITIES = "softmax_11.tmp_0";

const tail = buildOnnx({
  opset: OPSET,
  irVersion: 8,
  inputs: [{ name: PROBABILITIES, type: FLOAT, dims: ["batch", "steps", 6625] }],
  nodes: [
    { op: "ArgMax", inputs: [PROBABILITIES], outputs: ["tail/best"], attributes: { axis: LAST, keepdims: 0 } },
    { op: "Cast", inputs: ["tail/best"], outputs: ["class"], attributes: { to: INT32 } },
    { op: "ReduceMax", inputs: [PROBABILITIES], outputs: ["probability"], attributes: { axes: [LAST], keepdims: 0 } },
  ],
  outputs: [
    { name: "class", type: INT32, dims: ["batch", "steps"] },
    { name: "probability", type: FLOAT, dims: ["batch", "steps"] },
  ],
});
writeFileSync(path.join(root, "models", "ocr-rec", "best-class.onnx"), tail);
