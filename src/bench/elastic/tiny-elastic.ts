/** A repository with a tiny elastic model of drawn weights and tasks for it: for tests, and for a benchmark that only shows that it runs. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { normalOf, stream } from "../../sim/random.js";
import { elasticModel } from "../serving/elastic/elastic-graph.js";
import { drawnWeights, type ElasticGeometry } from "../serving/elastic/elastic-weights.js";
import { type TemporaryFolder, temporaryFolder } from "../serving/temporary-folder.js";

export const TINY: ElasticGeometry = { side: 16, width: 16, heads: 2, layers: 3, stem: [4, 8] };
export const GAMMAS = [-4, -2, 0, 2, 4] as const;
const PROMPTS = GAMMAS.filter((gamma) => gamma > 0);
const PIXELS = TINY.side ** 2;
const TINY_IMAGES = 12;

export interface DrawnTask {
  readonly name: string;
  readonly classes: readonly string[];
  /** [width, classes], [classes]. */
  readonly head: Float32Array;
  readonly bias: Float32Array;
  readonly prompts: ReadonlyMap<number, Float32Array>;
}

/** The same for the same name and seed. */
export function drawnTask(name: string, count: number, seed = 1): DrawnTask {
  const drawn = (part: string, length: number, deviation: number): Float32Array => {
    const random = stream(seed, `${name}/${part}`);
    return Float32Array.from({ length }, () => deviation * normalOf(random(), random()));
  };
  return {
    name,
    classes: Array.from({ length: count }, (_, at) => `${name} ${at}`),
    head: drawn("head", TINY.width * count, 1),
    bias: drawn("bias", count, 0.1),
    prompts: new Map(PROMPTS.map((gamma) => [gamma, drawn(`prompts${gamma}`, TINY.layers * gamma * TINY.width, 0.5)])),
  };
}

/** Of drawn weights; every test's is the same. */
export const tinyModel = (): Buffer => elasticModel(TINY, drawnWeights(TINY));

/** @param yaml of `elastic:` beyond the gammas, and other keys of the file. */
export function putModel(
  repository: string,
  name: string,
  elastic = "",
  yaml = "slo_ms: 5000\ntimeout_max_ms: 60000\n",
): string {
  const folder = path.join(repository, name);
  mkdirSync(path.join(folder, "1"), { recursive: true });
  writeFileSync(path.join(folder, "1", "model.onnx"), tinyModel());
  writeFileSync(
    path.join(folder, "rubato.yaml"),
    `${yaml}batch_max: 8\nelastic:\n  gammas: [${GAMMAS.join(", ")}]\n${elastic}`,
  );
  return folder;
}

/** As whoever trains tasks puts them there. @param changes of its task.json. */
export function putTask(model: string, task: DrawnTask, changes: object = {}): string {
  const folder = path.join(model, "tasks", task.name);
  mkdirSync(folder, { recursive: true });
  const accuracy = Object.fromEntries(GAMMAS.map((gamma) => [gamma, 0.9 + gamma / 100]));
  const description = { name: task.name, classes: task.classes, utility: 2, gammas: PROMPTS, accuracy, ...changes };
  writeFileSync(path.join(folder, "task.json"), JSON.stringify(description));
  writeFileSync(path.join(folder, "head.bin"), Buffer.concat([bytesOf(task.head), bytesOf(task.bias)]));
  for (const [gamma, values] of task.prompts) writeFileSync(path.join(folder, `prompts-${gamma}.bin`), bytesOf(values));
  return folder;
}

const bytesOf = (values: Float32Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/** With test images whose labels are drawn, too: it is right by chance. */
export function writeTiny(): TemporaryFolder {
  const temporary = temporaryFolder("tiny");
  const model = putModel(temporary.folder, "vit");
  mkdirSync(path.join(model, "images"));
  for (const [name, classes] of [
    ["letters", 3],
    ["shoes", 2],
  ] as const) {
    putTask(model, drawnTask(name, classes));
    const random = stream(1, `${name}/images`);
    const drawn = (count: number, below: number) =>
      Uint8Array.from({ length: count }, () => Math.floor(below * random()));
    writeFileSync(path.join(model, "images", `${name}.bin`), drawn(TINY_IMAGES * PIXELS, 256));
    writeFileSync(path.join(model, "images", `${name}.labels.bin`), drawn(TINY_IMAGES, classes));
  }
  return { folder: model, remove: temporary.remove };
}
