// Sentences in, similarities out.
//
//   node examples/embed.mjs [--protocol http|grpc] [--timeout-ms 150] ["a sentence" "another" ...]
//
// Every sentence is a request of its own, all sent at once: the server makes the batches.
import { connect, optionsFromArguments, Refused, runExample, showRefusal } from "./client.mjs";
import { embedderInputs, similarity } from "./text.mjs";

const SENTENCES = [
  "The train to Lyon leaves at noon.",
  "At twelve o'clock the train departs for Lyon.",
  "How do I reset my password?",
  "I forgot my password and cannot log in.",
  "She adopted two kittens from the shelter.",
];

await runExample(async () => {
  const options = optionsFromArguments('embed.mjs [flags] ["a sentence" "another" ...]');
  const client = await connect(options);
  const sentences = options.positionals.length > 1 ? options.positionals : SENTENCES;
  const timeoutMs = options.timeoutMs ?? 150;

  const settled = await Promise.allSettled(
    sentences.map((sentence) => client.infer("embedder", embedderInputs(sentence), { timeoutMs })),
  );
  console.log(`${client.name}, deadline ${timeoutMs} ms`);
  const embeddings = settled.map(({ status, value, reason }, i) => {
    if (status === "rejected" && !(reason instanceof Refused)) throw reason;
    const took = status === "rejected" ? "refused" : `${value.ms.toFixed(1)} ms`;
    console.log(`${i + 1} ${took.padStart(10)}  ${sentences[i]}`);
    if (status === "rejected") console.log(`              ${reason.describe()}`);
    return value?.outputs.embedding.data;
  });
  console.log("\nsimilarities");
  embeddings.forEach((a, i) => {
    const row = embeddings.map((b) => (a && b ? similarity(a, b).toFixed(2) : "-").padStart(6));
    console.log(`${i + 1} ${row.join("")}`);
  });

  console.log("\na text of 256 tokens in a time in which it cannot be done");
  await showRefusal(client, "embedder", embedderInputs("word ".repeat(300)), 1);
  client.close();
});
