// Writes the models whose time lies in their input: models/early-exit/1/model.onnx and models/loop/1/model.onnx.
//
//   npm run build && node scripts/models/make-dynamic.mjs
//
// The graphs and their weights, drawn by a seed: src/bench/serving/early-exit-model.ts and loop-model.ts.
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { earlyExitModel } from "../../dist/bench/serving/early-exit-model.js";
import { loopModel } from "../../dist/bench/serving/loop-model.js";
import { root } from "../ensure.mjs";

for (const [name, model] of [
  ["early-exit", earlyExitModel()],
  ["loop", loopModel()],
]) {
  const folder = path.join(root, "models", name, "1");
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, "model.onnx"), model);
}
