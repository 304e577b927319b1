// Classifies images of each task of an elastic model with few, all and more tokens, and says how often it is right and how fast.
//
//   node examples/elastic/classify.mjs [--model elastic-vit] [--images models/elastic-vit/images] [--gammas=-8,0,8] [--count 200]
//
// The gamma of a batch is the server's to choose: this starts a server of its own for each gamma, on a copy of the model's
// folder whose rubato.yaml fixes it, and asks it over HTTP.
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parse, stringify } from "yaml";
import { askHttp, connectHttp, readFlags, runExample, tensor, wholeNumber } from "../client.mjs";
import { root, withOwnServer } from "../own-server.mjs";
import { testImages } from "./images.mjs";

const HELP = `usage: node examples/elastic/classify.mjs [flags]

  --model NAME        an elastic model of the repository (default elastic-vit)
  --repository DIR    default models/
  --images DIR        its labelled test images (default images/ beside the model)
  --gammas=G,G,...    gammas of the model (default -8,0,8)
  --count N           images of each task (default 200)
  --in-flight N       requests at a time (default 32)`;

const GAMMA_MAX = 256;
const flags = readFlags(
  HELP,
  {
    model: { type: "string", default: "elastic-vit" },
    repository: { type: "string", default: path.join(root, "models") },
    images: { type: "string" },
    gammas: { type: "string", default: "-8,0,8" },
    count: { type: "string", default: "200" },
    "in-flight": { type: "string", default: "32" },
  },
  ({ model, repository, images, gammas, count, "in-flight": inFlight }, positionals) => {
    if (positionals.length > 0) throw new RangeError(`there must be flags only; was ${positionals[0]}`);
    const source = path.join(repository, model);
    const file = path.join(source, "rubato.yaml");
    const settings = existsSync(file) ? parse(readFileSync(file, "utf8")) : null;
    if (!settings?.elastic)
      throw new RangeError(`--model must be an elastic model of ${repository} (--repository); was ${model}`);
    const folder = images ?? path.join(source, "images");
    if (!existsSync(folder)) throw new RangeError(`--images must be a folder; was ${folder}`);
    return {
      model,
      source,
      settings,
      folder,
      gammas: gammas.split(",").map((each) => wholeNumber("gammas", each, -GAMMA_MAX, GAMMA_MAX)),
      count: wholeNumber("count", count, 1, 1_000_000),
      inFlight: wholeNumber("in-flight", inFlight, 1, 1024),
    };
  },
);
const { model, source, settings, folder, gammas, count, inFlight } = flags;

/** A server with one worker, whose batches all run with this gamma. */
const prepare = (gamma) => (own) => {
  const copy = path.join(own, "models", model);
  mkdirSync(copy, { recursive: true });
  for (const entry of ["1", "tasks"])
    if (existsSync(path.join(source, entry)))
      cpSync(path.join(source, entry), path.join(copy, entry), { recursive: true });
  const fixed = {
    ...settings,
    slo_ms: 10_000,
    policy_options: { adapt_tokens: false },
    elastic: { ...settings.elastic, gamma },
  };
  writeFileSync(path.join(copy, "rubato.yaml"), stringify(fixed));
  writeFileSync(
    path.join(own, "rubato.config.yaml"),
    stringify({
      http: { port: 0 },
      grpc: { enabled: false },
      groups: { cpu: { kind: "onnx", count: 1, threads: 1 } },
      log: { level: "info", pretty: false },
    }),
  );
};

/** By the largest logit; and the gamma that each was served with. */
async function classifyAll(client, task, { labels, side, image }) {
  const total = Math.min(count, labels.length);
  let next = 0;
  let right = 0;
  const seen = new Set();
  const work = async () => {
    while (next < total) {
      const at = next++;
      const { outputs, parameters } = await client.infer(
        model,
        [tensor("image", "FP32", [1, 1, side, side], image(at))],
        {
          parameters: { task, timeout: 10_000_000 },
        },
      );
      const logits = outputs.logits.data;
      seen.add(parameters.gamma);
      if (logits.indexOf(Math.max(...logits)) === labels[at]) right++;
    }
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: inFlight }, work));
  const seconds = (performance.now() - startedAt) / 1000;
  return { right: right / total, perSecond: total / seconds, gamma: [...seen].join(" ") };
}

async function printTasks(url) {
  const { tasks } = await askHttp(`${url}/v2/repository/models/${encodeURIComponent(model)}/tasks`);
  const client = connectHttp(url);
  for (const { name, state, reason } of tasks) {
    const images = testImages(folder, name);
    if (state !== "READY") console.log(`${name.padEnd(10)} is not served: ${reason}`);
    else if (images === null) console.log(`${name.padEnd(10)} has no test images in ${folder}`);
    else {
      const { right, perSecond, gamma } = await classifyAll(client, name, images);
      console.log(
        `${name.padEnd(10)} ${gamma.padStart(5)}   ${right.toFixed(3)}   ${perSecond.toFixed(0).padStart(8)}`,
      );
    }
  }
}

await runExample(async () => {
  console.log("task       gamma   right   images/s");
  for (const gamma of gammas) await withOwnServer(prepare(gamma), printTasks);
});
