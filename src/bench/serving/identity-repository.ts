/** A model repository of models that give back their input: what is left of a request is the server. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { buildOnnx } from "./onnx-builder.js";

/** TensorProto.DataType.FLOAT */
const FLOAT = 1;

export interface IdentityModel {
  readonly name: string;
  /** Of the tensor of one request: FP32 [1, bytes / 4]. */
  readonly bytes: number;
}

/** Writes the models, all of one group, each request a batch of its own. */
export function writeIdentityModels(folder: string, group: string, models: readonly IdentityModel[]): void {
  for (const { name, bytes } of models) {
    const dims = ["batch", bytes / Float32Array.BYTES_PER_ELEMENT];
    const version = path.join(folder, name, "1");
    mkdirSync(version, { recursive: true });
    const graph = {
      inputs: [{ name: "x", type: FLOAT, dims }],
      outputs: [{ name: "y", type: FLOAT, dims }],
      nodes: [{ op: "Identity", inputs: ["x"], outputs: ["y"] }],
    };
    writeFileSync(path.join(version, "model.onnx"), buildOnnx(graph));
    // The SLO is long: at no load here may a request be dropped or wait for company.
    writeFileSync(path.join(folder, name, "rubato.yaml"), `slo_ms: 5000\ngroup: ${group}\nbatch_max: 1\n`);
  }
}
