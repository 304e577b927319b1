// A sound file in, speech segments out.
//
//   node examples/find-speech.mjs [--protocol http|grpc] [--timeout-ms 16] [--live] [speech.wav]
//
// Frames of 32 ms, each a request with a deadline of half a frame; --live sends them as a microphone would.
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { connect, optionsFromArguments, Refused, runExample, showRefusal } from "./client.mjs";
import { FRAME, RATE, readWav, SpeechStream, segments } from "./speech.mjs";

await runExample(async () => {
  const options = optionsFromArguments("find-speech.mjs [--live] [flags] [speech.wav]", {
    live: { type: "boolean", default: false },
  });
  const client = await connect(options);
  const samples = readWav(options.positionals[0] ?? fileURLToPath(new URL("speech.wav", import.meta.url)));
  const timeoutMs = options.timeoutMs ?? 16;

  const stream = new SpeechStream(client.infer);
  const [probabilities, latencies] = [[], []];
  let refused = null;
  let refusals = 0;
  const startedAt = performance.now();
  for (let at = 0; at + FRAME <= samples.length; at += FRAME) {
    const recordedAt = startedAt + ((at + FRAME) / RATE) * 1000;
    if (options.live && recordedAt > performance.now()) await sleep(recordedAt - performance.now());
    try {
      const { probability, ms } = await stream.push(samples.subarray(at, at + FRAME), { timeoutMs });
      probabilities.push(probability);
      latencies.push(ms);
    } catch (error) {
      if (
        !(error instanceof Refused) ||
        !["504", "429", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"].includes(error.status)
      )
        throw error;
      // A frame that cannot be judged in time is worth nothing later: take the last answer and go on.
      refused = error;
      refusals += 1;
      probabilities.push(probabilities.at(-1) ?? 0);
    }
  }

  for (const { startS, endS } of segments(probabilities))
    console.log(`speech ${startS.toFixed(2)} s to ${endS.toFixed(2)} s`);
  latencies.sort((a, b) => a - b);
  const quantile = (q) =>
    (latencies[Math.min(latencies.length - 1, Math.floor(q * latencies.length))] ?? Number.NaN).toFixed(2);
  console.log(`\n${client.name}, deadline ${timeoutMs} ms a frame`);
  console.log(
    `${probabilities.length} frames, ${refusals} refused; latency p50 ${quantile(0.5)} ms, p99 ${quantile(0.99)} ms`,
  );
  if (refused) console.log(`last refusal: ${refused.describe()}`);

  console.log("\na frame in a time in which it cannot be done");
  await showRefusal(client, "vad", stream.inputs(samples.subarray(0, FRAME)), 0.05);
  client.close();
});
