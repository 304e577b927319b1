// Writes the emulated models of the repository: models/emulated-NAME/rubato.yaml, one per row below.
//
//   node scripts/models/make-emulated.mjs
//
// Profiles and SLOs: Symphony, Appendix C, Table 3 (NVIDIA 1080Ti) and Table 4 (NVIDIA A100).
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const models = path.join(path.dirname(fileURLToPath(import.meta.url)), "..", "..", "models");
const TABLES = { a100: "Table 4 (NVIDIA A100)", "1080ti": "Table 3 (NVIDIA 1080Ti)" };
// name, accelerator, alpha in ms, beta in ms, SLO in ms
const ROWS = [
  ["ResNet50", "a100", 0.268, 5.172, 20],
  ["DenseNet121", "a100", 0.054, 10.546, 21],
  ["InceptionResNetV2", "a100", 1.112, 15.27, 39],
  ["BERT", "a100", 7.353, 0.222, 59],
  ["ResNet50", "1080ti", 2.05, 5.378, 27],
  ["InceptionResNetV2", "1080ti", 5.09, 18.368, 77],
  ["BERT", "1080ti", 7.008, 0.159, 56],
];

for (const [name, accelerator, alpha, beta, slo] of ROWS) {
  const folder = path.join(models, `emulated-${name.toLowerCase()}-${accelerator}`);
  const batchMax = Math.max(1, Math.min(64, Math.floor((slo - beta) / alpha)));
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    path.join(folder, "rubato.yaml"),
    `# Takes as long as ${name} does in Symphony's Appendix C, ${TABLES[accelerator]}; computes nothing.
# A batch of b takes alpha_ms * b + beta_ms. The input is small: what is emulated is the accelerator, not the transfer.
platform: rubato_emulated
slo_ms: ${slo}
group: emulated-${accelerator}
batch_max: ${batchMax} # the largest that fits the SLO, at most 64
emulated: { alpha_ms: ${alpha}, beta_ms: ${beta} }
inputs:
  x: { datatype: FP32, shape: [-1, 16], batch_axis: 0 }
outputs:
  y: { datatype: FP32, shape: [-1, 16], batch_axis: 0 }
`,
  );
}
