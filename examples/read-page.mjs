// A page image in, text out.
//
//   node examples/read-page.mjs [--protocol http|grpc] [--timeout-ms 5000] [page.png]
//
// One request finds the lines; then every line is two requests, all lines at once.
import { fileURLToPath } from "node:url";
import sharp from "sharp";
import { connect, optionsFromArguments, runExample, showRefusal } from "./client.mjs";
import { detectorInputs, pixels, readPage } from "./page.mjs";

await runExample(async () => {
  const options = optionsFromArguments("read-page.mjs [flags] [page.png]");
  const client = await connect(options);
  const file = options.positionals[0] ?? fileURLToPath(new URL("page.png", import.meta.url));
  const timeoutMs = options.timeoutMs ?? 5000; // a page is read, not watched: time for a machine that does other things too

  const latencies = {};
  const infer = async (model, inputs, settings) => {
    const answer = await client.infer(model, inputs, settings);
    latencies[model] ??= [];
    latencies[model].push(answer.ms);
    return answer;
  };
  const startedAt = performance.now();
  const lines = await readPage(file, infer, { timeoutMs });
  const elapsed = performance.now() - startedAt;

  for (const { text, confidence, upsideDown, refused } of lines)
    if (refused) console.log(`      (a line was refused: ${refused.describe()})`);
    else console.log(`${confidence.toFixed(2)}  ${text}${upsideDown ? "  (upside down)" : ""}`);
  console.log(`\n${client.name}, deadline ${timeoutMs} ms a request; the page took ${elapsed.toFixed(0)} ms`);
  for (const [model, times] of Object.entries(latencies))
    console.log(`${model.padEnd(8)} ${times.length} requests, slowest ${Math.max(...times).toFixed(1)} ms`);

  console.log("\nthe page in a time in which its text cannot be found");
  await showRefusal(client, "ocr-det", await detectorInputs(await pixels(sharp(file).removeAlpha())), 5);
  client.close();
});
