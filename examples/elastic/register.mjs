// Registers a task with an elastic model that is served, waits until it is profiled, asks it, and deletes it.
//
//   node examples/elastic/register.mjs [--task reversed] [--http http://127.0.0.1:8000]
//
// The task is `digits` with its classes from 9 down to 0: columns of its head in reverse, its prompts as they are.
import { readFileSync } from "node:fs";
import path from "node:path";
import { askHttp, connectHttp, httpMessage, optionsFromArguments, runExample, tensor } from "../client.mjs";
import { root } from "../own-server.mjs";
import { testImages } from "./images.mjs";

const MODEL = "elastic-vit";
/** Of its profiling set; 16 are the fewest. */
const IMAGES = 32;
const READY_WITHIN_MS = 300_000;
const folder = path.join(root, "models", MODEL);
const floats = (name) => {
  const bytes = readFileSync(path.join(folder, "tasks", "digits", name));
  return new Float32Array(new Uint8Array(bytes).buffer);
};

/** What a registration holds; width and layers are the model's, as its README says. */
function registration({ image, labels, side }) {
  const { classes, gammas } = JSON.parse(readFileSync(path.join(folder, "tasks", "digits", "task.json"), "utf8"));
  const count = classes.length;
  const values = floats("head.bin");
  const width = values.length / count - 1;
  const mirrored = values.map((_, at) => values[at - (at % count) + (count - 1 - (at % count))]);
  const layers = floats(`prompts-${gammas[0]}.bin`).length / gammas[0] / width;
  const images = Float32Array.from(Array.from({ length: IMAGES }, (_, at) => [...image(at)]).flat());
  const reversed = BigInt64Array.from({ length: IMAGES }, (_, at) => BigInt(count - 1 - labels[at]));
  return [
    tensor("classes", "BYTES", [count], [...classes].reverse()),
    tensor("head", "FP32", [width, count], mirrored.slice(0, width * count)),
    tensor("bias", "FP32", [count], mirrored.slice(width * count)),
    ...gammas.map((gamma) =>
      tensor(`prompts_${gamma}`, "FP32", [layers, gamma, width], floats(`prompts-${gamma}.bin`)),
    ),
    tensor("images", "FP32", [IMAGES, 1, side, side], images),
    tensor("labels", "INT64", [IMAGES], reversed),
  ];
}

await runExample(async () => {
  const { http, task } = optionsFromArguments("elastic/register.mjs [--task reversed] [--http URL]", {
    task: { type: "string", default: "reversed" },
  });
  const images = testImages(path.join(folder, "images"), "digits");
  const url = `${http}/v2/repository/models/${MODEL}/tasks/${encodeURIComponent(task)}`;
  const message = httpMessage(registration(images), { parameters: { utility: 1, slo_ms: 500 } });
  await askHttp(url, { method: "POST", ...message });
  console.log(`${task}: registered`);
  try {
    let view = { state: "PROFILING" };
    for (const giveUpAt = Date.now() + READY_WITHIN_MS; view.state === "PROFILING"; ) {
      if (Date.now() > giveUpAt) throw new Error(`${task} was not profiled within ${READY_WITHIN_MS / 1000} s`);
      await new Promise((resolve) => setTimeout(resolve, 250));
      view = await askHttp(url);
    }
    if (view.state !== "READY") throw new Error(`${task} is ${view.state}: ${view.reason}`);
    const right = view.gammas.map(({ gamma, accuracy }) => `${gamma}: ${accuracy}`);
    console.log(`${task}: ${view.state}, right by gamma ${right.join(", ")}`);
    const [at, { side }] = [IMAGES, images];
    const inputs = [tensor("image", "FP32", [1, 1, side, side], images.image(at))];
    const { outputs, parameters } = await connectHttp(http).infer(MODEL, inputs, {
      timeoutMs: 500,
      parameters: { task },
    });
    const logits = outputs.logits.data;
    const found = view.classes[logits.indexOf(Math.max(...logits))];
    console.log(`${task}: image ${at} is "${found}" (label ${images.labels[at]}), gamma ${parameters.gamma}`);
  } finally {
    await askHttp(url, { method: "DELETE" });
    console.log(`${task}: deleted`);
  }
});
