// Classifies images of each task of an elastic model with few, all and more tokens, and says how often it is right and how fast.
//
//   node examples/elastic/classify.mjs [--model elastic-vit] [--images models/elastic-vit/images] [--gammas=-8,0,8] [--count 200]
//
// The gamma of a batch is the server's to choose: this starts a server of its own for each gamma, on a copy of the model's
// folder whose rubato.yaml fixes it, and asks it over HTTP with plain fetch.

import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const { values } = parseArgs({
  options: {
    model: { type: "string", default: "elastic-vit" },
    repository: { type: "string", default: path.join(root, "models") },
    images: { type: "string" },
    gammas: { type: "string", default: "-8,0,8" },
    count: { type: "string", default: "200" },
    "in-flight": { type: "string", default: "32" },
  },
});
const { model, repository } = values;
const source = path.join(repository, model);
const images = values.images ?? path.join(source, "images");
const gammas = values.gammas.split(",").map(Number);
const count = Number(values.count);

/** A server with one worker, whose batches all run with this gamma. */
async function serve(gamma, work) {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-elastic-"));
  const own = path.join(folder, "models", model);
  mkdirSync(own, { recursive: true });
  for (const entry of ["1", "tasks"])
    if (existsSync(path.join(source, entry)))
      cpSync(path.join(source, entry), path.join(own, entry), { recursive: true });
  const yaml = readFileSync(path.join(source, "rubato.yaml"), "utf8")
    .replace(/^\s+gamma:.*\n/m, "")
    .replace(/^slo_ms:.*\n/m, "")
    .replace(/^policy_options:.*\n/m, "");
  writeFileSync(
    path.join(own, "rubato.yaml"),
    `slo_ms: 10000\npolicy_options: { adapt_tokens: false }\n${yaml.replace(/^elastic:[^\S\n]*\n/m, `elastic:\n  gamma: ${gamma}\n`)}`,
  );
  writeFileSync(
    path.join(folder, "rubato.config.yaml"),
    "http: { port: 0 }\ngrpc: { enabled: false }\ngroups: { cpu: { kind: onnx, count: 1, threads: 1 } }\nlog: { level: info, pretty: false }\n",
  );
  const server = spawn(
    process.execPath,
    [path.join(root, "bin", "rubato.js"), "serve", "--config", path.join(folder, "rubato.config.yaml")],
    {
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  try {
    await work(await addressOf(server));
  } finally {
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGTERM");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Where it listens, once its models are served. */
function addressOf(server) {
  return new Promise((resolve, reject) => {
    let said = "";
    const onData = (data) => {
      said += data;
      const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
      if (url === undefined) return;
      const ask = async () => {
        const answer = await fetch(`${url}/v2/health/ready`).catch(() => null);
        if (answer?.ok) resolve(url);
        else setTimeout(ask, 50);
      };
      server.stdout.off("data", onData);
      server.stdout.resume();
      void ask();
    };
    server.stdout.on("data", onData);
    server.stderr.on("data", (data) => {
      said += data;
    });
    server.once("exit", (code) => reject(new Error(`the server ended with exit code ${code}: ${said}`)));
  });
}

/** uint8 pixels, 1024 for each image, and a label of a byte for each; NAME.bin and NAME.labels.bin, or the same compressed. */
function testImages(task) {
  const read = (name) => {
    const file = path.join(images, name);
    return existsSync(`${file}.gz`) ? gunzipSync(readFileSync(`${file}.gz`)) : readFileSync(file);
  };
  return { pixels: read(`${task}.bin`), labels: read(`${task}.labels.bin`) };
}

/** One image: its class by the largest logit, and the gamma that it was served with. */
async function classify(url, task, pixels, side) {
  const image = Float32Array.from(pixels, (value) => value / 255);
  const inputs = [
    { name: "image", datatype: "FP32", shape: [1, 1, side, side], parameters: { binary_data_size: image.byteLength } },
  ];
  const json = JSON.stringify({ inputs, parameters: { task, timeout: 10_000_000 } });
  const answer = await fetch(`${url}/v2/models/${model}/infer`, {
    method: "POST",
    headers: { "inference-header-content-length": String(Buffer.byteLength(json)) },
    body: Buffer.concat([Buffer.from(json), Buffer.from(image.buffer)]),
  });
  const { outputs, parameters, error } = await answer.json();
  if (!answer.ok) throw new Error(`${answer.status}: ${error}`);
  const logits = outputs.find(({ name }) => name === "logits").data;
  return { found: logits.indexOf(Math.max(...logits)), gamma: parameters.gamma };
}

async function classifyAll(url, task, side) {
  const { pixels, labels } = testImages(task);
  const total = Math.min(count, labels.length);
  let next = 0;
  let right = 0;
  const gammasSeen = new Set();
  const work = async () => {
    while (next < total) {
      const at = next++;
      const { found, gamma } = await classify(
        url,
        task,
        pixels.subarray(at * side * side, (at + 1) * side * side),
        side,
      );
      gammasSeen.add(gamma);
      if (found === labels[at]) right++;
    }
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: Number(values["in-flight"]) }, work));
  const seconds = (performance.now() - startedAt) / 1000;
  return { right: right / total, perSecond: total / seconds, gamma: [...gammasSeen].join(" ") };
}

console.log("task       gamma   right   images/s");
for (const gamma of gammas)
  await serve(gamma, async (url) => {
    const { tasks } = await (await fetch(`${url}/v2/repository/models/${model}/tasks`)).json();
    const metadata = await (await fetch(`${url}/v2/models/${model}`)).json();
    const side = Number(metadata.inputs[0].shape.at(-1));
    for (const { name, state, reason } of tasks) {
      if (state !== "READY") {
        console.log(`${name.padEnd(10)} is not served: ${reason}`);
        continue;
      }
      const { right, perSecond, gamma: served } = await classifyAll(url, name, side);
      console.log(
        `${name.padEnd(10)} ${served.padStart(5)}   ${right.toFixed(3)}   ${perSecond.toFixed(0).padStart(8)}`,
      );
    }
  });
