// Measures an elastic model as a worker of one thread runs it.
//
//   npm run build && node scripts/models/measure-elastic.mjs [equal|accuracy|confidence|speed ...] [--model models/elastic-vit] [--images DIR]
//                                                            [--count N] [--gammas=-8,0,8] [--keep] [--noise A]
//
// equal     N images (500), of the tasks in turn: the largest difference between the graph's logits, in batches of 32 that mix tasks,
//           and those of plain loops (src/bench/serving/elastic/elastic-reference.ts), and between such a batch and one by one; of each
//           image past 1e-4, how near merging was to another choice, and what is left where that one is made
// accuracy  the share of each task's first N images (all) that is right, with its standard error; --keep writes it to the tasks' task.json
// confidence  the share that is right and the mean confidence (largest softmax), and what part of either is left where each pixel is off by up to A (0.3) at random: whether
//           confidence tells that images became harder (docs/decisions/011-token-allocation.md)
// speed     ms of CPU time of a run, median of 25, in batches of 1, 8 and 32 images of all tasks; gammas take turns, so that a busy
//           machine slows all alike. CPU time is wall time on an idle core.
// --images  NAME.bin (uint8, 32 x 32) or NAME.bin.gz, and NAME.labels.bin; the model's own test images by default
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { ElasticFolder } from "../../dist/bench/serving/elastic/elastic-folder.js";
import { ELASTIC_VIT } from "../../dist/bench/serving/elastic/elastic-weights.js";
import { Draws } from "../../dist/sim/draws.js";
import { root } from "../ensure.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: "string", default: path.join(root, "models", "elastic-vit") },
    images: { type: "string" },
    count: { type: "string" },
    gammas: { type: "string" },
    keep: { type: "boolean", default: false },
    noise: { type: "string", default: "0.3" },
  },
});
const PARTS = { equal, accuracy, confidence, speed };
const BATCH = 32;
const BOUND = 1e-4;
const RUNS = 25;

const folder = await ElasticFolder.open(path.resolve(values.model), ELASTIC_VIT);
const gammas = values.gammas?.split(",").map(Number) ?? [...folder.elastic.gammas];
const names = folder.tasks.map(({ name }) => name);
const imagesOf = (task, count) => folder.images(task, count, values.images);

/** Of the tasks in turn. */
function mixed(count) {
  const own = names.map((name) => imagesOf(name, Math.ceil(count / names.length)));
  return Array.from({ length: count }, (_, at) => own[at % own.length][Math.floor(at / own.length)]);
}
const chunks = (list, size) =>
  Array.from({ length: Math.ceil(list.length / size) }, (_, at) => list.slice(at * size, (at + 1) * size));
const farthest = (a, b) => a.reduce((most, value, at) => Math.max(most, Math.abs(value - b[at])), 0);
const best = (row) => row.indexOf(Math.max(...row));
const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

async function equal() {
  const images = mixed(Number(values.count ?? 500));
  console.log(`\n${images.length} images of ${names.join(", ")}: largest difference of a logit`);
  console.log("gamma   plain loops   past 1e-4   other class   one by one");
  for (const gamma of gammas) {
    const together = [];
    for (const batch of chunks(images, BATCH)) together.push(...(await folder.run(batch, gamma)));
    let alone = 0;
    let plain = 0;
    let past = 0;
    let other = 0;
    for (const [at, image] of images.entries()) {
      const row = together[at];
      alone = Math.max(alone, farthest(row, (await folder.run([image], gamma))[0]));
      const margins = [];
      const expected = folder.reference(image, gamma, -1, margins);
      const difference = farthest(row, expected);
      plain = Math.max(plain, difference);
      if (difference > BOUND) {
        past++;
        tieOf(image, at, gamma, row, difference, margins);
      }
      if (best(row) !== best(expected)) other++;
    }
    console.log(
      `${String(gamma).padStart(5)}   ${plain.toExponential(1).padStart(11)}   ${String(past).padStart(9)}   ${String(other).padStart(11)}   ${alone.toExponential(1).padStart(10)}`,
    );
  }
}

/** Says whether the difference is a tie of merging that rounding broke the other way. */
function tieOf(image, at, gamma, row, difference, margins) {
  const margin = Math.min(...margins);
  const layer = margins.indexOf(margin);
  const left = farthest(row, folder.reference(image, gamma, layer));
  console.log(
    `  image ${at} (${image.task}) at gamma ${gamma}: ${difference.toExponential(1)}; the closest choice of what is merged, in layer ${layer}, was made by ${margin.toExponential(1)} of a cosine; made the other way, ${left.toExponential(1)} is left`,
  );
}

async function accuracy() {
  const count = values.count === undefined ? Number.POSITIVE_INFINITY : Number(values.count);
  console.log(
    `\nright, and its standard error\ntask      images  ${gammas.map((gamma) => String(gamma).padStart(16)).join("")}`,
  );
  for (const { name, folder: own } of folder.tasks) {
    const images = imagesOf(name, count);
    const shares = {};
    for (const gamma of gammas) {
      let right = 0;
      for (const batch of chunks(images, BATCH))
        for (const [at, row] of (await folder.run(batch, gamma)).entries()) if (best(row) === batch[at].label) right++;
      shares[gamma] = right / images.length;
    }
    const shown = gammas.map((gamma) => {
      const share = shares[gamma];
      return `${share.toFixed(4)} ±${Math.sqrt((share * (1 - share)) / images.length).toFixed(4)}`;
    });
    console.log(
      `${name.padEnd(9)} ${String(images.length).padStart(6)}  ${shown.map((text) => text.padStart(16)).join("")}`,
    );
    if (values.keep) keep(path.join(own, "task.json"), shares, images.length);
  }
}

async function confidence() {
  const count = values.count === undefined ? Number.POSITIVE_INFINITY : Number(values.count);
  const draws = new Draws(1, "noise");
  const noisy = ({ pixels, ...image }, number) => ({
    ...image,
    pixels: pixels.map((value, at) =>
      Math.min(1, Math.max(0, value + Number(values.noise) * (2 * draws.uniform(number, at) - 1))),
    ),
  });
  console.log(
    `\nnoise of up to ${values.noise}\ntask       gamma   right  sure   with noise: right  sure   left of right  of sure`,
  );
  for (const { name } of folder.tasks) {
    const images = imagesOf(name, count);
    const harder = images.map(noisy);
    for (const gamma of gammas) {
      const [before, after] = [await sureness(images, gamma), await sureness(harder, gamma)];
      const shown = [
        before.right,
        before.sure,
        after.right,
        after.sure,
        after.right / before.right,
        after.sure / before.sure,
      ];
      const widths = [8, 6, 20, 6, 16, 9];
      console.log(
        `${name.padEnd(9)} ${String(gamma).padStart(6)}${shown.map((share, at) => share.toFixed(3).padStart(widths[at])).join("")}`,
      );
    }
  }
}

async function sureness(images, gamma) {
  let [right, sure] = [0, 0];
  for (const batch of chunks(images, BATCH))
    for (const [at, row] of (await folder.run(batch, gamma)).entries()) {
      if (best(row) === batch[at].label) right++;
      const most = Math.max(...row);
      sure += 1 / row.reduce((sum, value) => sum + Math.exp(value - most), 0);
    }
  return { right: right / images.length, sure: sure / images.length };
}

function keep(file, shares, count) {
  const task = JSON.parse(readFileSync(file, "utf8"));
  const rounded = Object.fromEntries(Object.entries(shares).map(([gamma, share]) => [gamma, Number(share.toFixed(4))]));
  const notes = `accuracy is of ${count} images of the profiling set, which is not kept`;
  writeFileSync(file, `${JSON.stringify({ ...task, accuracy: rounded, notes }, null, 1)}\n`);
}

async function speed() {
  console.log("\nms of CPU time of a run; images/s, and how many times as many as at gamma 0");
  console.log(`gamma  ${[1, 8, BATCH].map((size) => `batch ${size}`.padStart(23)).join("")}`);
  const rows = new Map(gammas.map((gamma) => [gamma, ""]));
  for (const size of [1, 8, BATCH]) {
    const images = mixed(size);
    const times = new Map(gammas.map((gamma) => [gamma, []]));
    for (const gamma of gammas) await folder.run(images, gamma);
    for (let run = 0; run < RUNS; run++)
      for (const gamma of gammas) {
        const start = process.cpuUsage();
        await folder.run(images, gamma);
        const { user, system } = process.cpuUsage(start);
        times.get(gamma).push((user + system) / 1000);
      }
    const at0 = median(times.get(0) ?? times.get(gammas[0]));
    for (const gamma of gammas) {
      const ms = median(times.get(gamma));
      const shown = `${ms.toFixed(2)} ${String(Math.round((1000 * size) / ms)).padStart(5)} ${(at0 / ms).toFixed(2)}x`;
      rows.set(gamma, rows.get(gamma) + shown.padStart(23));
    }
  }
  for (const [gamma, row] of rows) console.log(`${String(gamma).padStart(5)}  ${row}`);
}

for (const part of positionals.length === 0 ? Object.keys(PARTS) : positionals) {
  if (PARTS[part] === undefined) throw new Error(`part must be one of ${Object.keys(PARTS).join(", ")}; was ${part}`);
  await PARTS[part]();
}
await folder.close();
