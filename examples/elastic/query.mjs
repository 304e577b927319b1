// One image of a task to an elastic model that is served: its class, and the gamma that the server chose.
//
//   node examples/elastic/query.mjs [--task digits] [--at 7] [--utility 2] [--timeout-ms 500] [--protocol http|grpc]
import path from "node:path";
import { connect, optionsFromArguments, runExample, tensor, wholeNumber } from "../client.mjs";
import { root } from "../own-server.mjs";
import { testImages } from "./images.mjs";

const { model, task, images, at, utility, timeoutMs, ...options } = optionsFromArguments(
  "elastic/query.mjs [--task digits] [--at 7] [--utility 2] [flags]",
  {
    model: { type: "string", default: "elastic-vit" },
    task: { type: "string", default: "digits" },
    at: { type: "string", default: "7" },
    utility: { type: "string", default: "2" },
  },
  (values) => {
    const images = testImages(path.join(root, "models", "elastic-vit", "images"), values.task);
    if (images === null) throw new RangeError(`--task must be fashion, digits or glyphs; was ${values.task}`);
    if (!(Number(values.utility) > 0))
      throw new RangeError(`--utility must be a number above 0; was ${values.utility}`);
    const at = wholeNumber("at", values.at, 0, images.labels.length - 1);
    return { ...values, images, at, utility: Number(values.utility), timeoutMs: values.timeoutMs ?? 500 };
  },
);

await runExample(async () => {
  const { labels, side, image } = images;
  const client = await connect(options);
  const inputs = [tensor("image", "FP32", [1, 1, side, side], image(at))];
  const {
    outputs,
    parameters: said,
    ms,
  } = await client.infer(model, inputs, {
    timeoutMs,
    parameters: { task, utility },
  });
  const logits = outputs.logits.data;
  const found = logits.indexOf(Math.max(...logits));
  console.log(`${task} image ${at}: class ${found} (label ${labels[at]}), gamma ${said.gamma}, ${ms.toFixed(1)} ms`);
  client.close();
});
