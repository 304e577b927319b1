// A page image in, text out.
//
//   node examples/read-page.mjs [--protocol http|grpc] [--timeout-ms 5000] [page.png]
//
// One request to the pipeline models/ocr: it finds the lines, turns them upright and reads each, all under one deadline.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { connect, optionsFromArguments, runExample, showRefusal, tensor } from "./client.mjs";

await runExample(async () => {
  const options = optionsFromArguments("read-page.mjs [flags] [page.png]");
  const client = await connect(options);
  const file = options.positionals[0] ?? fileURLToPath(new URL("page.png", import.meta.url));
  const timeoutMs = options.timeoutMs ?? 5000; // a page is read, not watched: time for a machine that does other things too

  const image = tensor("image", "BYTES", [1], [readFileSync(file)]);
  const { outputs, ms } = await client.infer("ocr", [image], { timeoutMs });
  const { text, confidence, upside_down: upsideDown } = outputs;
  for (const [line, words] of text.data.entries())
    console.log(`${confidence.data[line].toFixed(2)}  ${words}${upsideDown.data[line] ? "  (upside down)" : ""}`);
  console.log(`\n${client.name}, deadline ${timeoutMs} ms; the page took ${ms.toFixed(0)} ms`);

  console.log("\nthe page in a time in which its text cannot be found");
  await showRefusal(client, "ocr", [image], 5);
  client.close();
});
