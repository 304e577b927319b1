// Writes models/elastic-vit/1/model.onnx. The graph: src/bench/serving/elastic/elastic-graph.ts.
//
//   npm run build && node scripts/models/make-elastic.mjs WEIGHTS [FILE]   weights.bin of models/elastic-vit/train/export.py
//   npm run build && node scripts/models/make-elastic.mjs --drawn [FILE]   untrained, drawn by a seed
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { elasticModel } from "../../dist/bench/serving/elastic/elastic-graph.js";
import { drawnWeights, ELASTIC_VIT, weightsFrom } from "../../dist/bench/serving/elastic/elastic-weights.js";
import { root } from "../ensure.mjs";

const [source, file = path.join(root, "models", "elastic-vit", "1", "model.onnx")] = process.argv.slice(2);
if (source === undefined) throw new Error("usage: make-elastic.mjs WEIGHTS|--drawn [FILE]");
const weights = source === "--drawn" ? drawnWeights(ELASTIC_VIT) : weightsFrom(readFileSync(source), ELASTIC_VIT);
mkdirSync(path.dirname(file), { recursive: true });
writeFileSync(file, elasticModel(ELASTIC_VIT, weights));
