// Sound to speech segments with `vad`: frames of 32 ms, the state of the network held here, at the client.
import { readFileSync } from "node:fs";
import { tensor } from "./client.mjs";

export const RATE = 16_000;
export const FRAME = 512; // samples: 32 ms
const CONTEXT = 64; // samples of the frame before that the network sees again
const STATE = [2, 1, 128];

// Silero's own rules for segments from probabilities.
const SPEECH_LEAST = 0.5;
const SILENCE_MOST = 0.35;
const SILENCE_MS_LEAST = 100;
const SPEECH_MS_LEAST = 250;

/** Reads a WAV file: 16 kHz, one channel, 16-bit samples. Returns samples in [-1, 1). */
export function readWav(file) {
  const bytes = readFileSync(file);
  const fail = (what) => {
    throw new RangeError(`${file}: must be a WAV file of 16 kHz, 1 channel, 16 bits; ${what}`);
  };
  if (bytes.toString("latin1", 0, 4) !== "RIFF" || bytes.toString("latin1", 8, 12) !== "WAVE")
    fail("it is no WAV file");
  let format = null;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const [id, size] = [bytes.toString("latin1", at, at + 4), bytes.readUInt32LE(at + 4)];
    const body = bytes.subarray(at + 8, at + 8 + size);
    if (id === "fmt ") {
      format = {
        kind: body.readUInt16LE(0),
        channels: body.readUInt16LE(2),
        rate: body.readUInt32LE(4),
        bits: body.readUInt16LE(14),
      };
      const { kind, channels, rate, bits } = format;
      if (kind !== 1 || channels !== 1 || rate !== RATE || bits !== 16)
        fail(`it has format ${kind}, ${rate} Hz, ${channels} channels, ${bits} bits`);
    }
    if (id === "data") {
      if (format === null) fail("its data come before its format");
      return Float32Array.from({ length: body.length >> 1 }, (_, i) => body.readInt16LE(2 * i) / 32768);
    }
    at += 8 + size + (size & 1);
  }
  return fail("it has no data");
}

/** One speaker's stream: each answer brings the state that the next frame needs, so frames go one after another. */
export class SpeechStream {
  #state = new Float32Array(STATE.reduce((a, b) => a * b));
  #context = new Float32Array(CONTEXT);

  constructor(infer) {
    this.infer = infer;
  }

  inputs(samples) {
    const frame = new Float32Array(CONTEXT + FRAME);
    frame.set(this.#context);
    frame.set(samples, CONTEXT);
    return [
      tensor("input", "FP32", [1, frame.length], frame),
      tensor("state", "FP32", STATE, this.#state),
      tensor("sr", "INT64", [], BigInt64Array.of(BigInt(RATE))),
    ];
  }

  /** Probability of speech in 512 samples; when the server refuses, the frame is skipped and the state stays. */
  async push(samples, settings) {
    const inputs = this.inputs(samples);
    this.#context = inputs[0].data.slice(-CONTEXT);
    const { outputs, ms } = await this.infer("vad", inputs, settings);
    this.#state = outputs.stateN.data;
    return { probability: outputs.output.data[0], ms };
  }
}

/** @param probabilities one per frame. @returns [{ startS, endS }] */
export function segments(probabilities) {
  const frameMs = (1000 * FRAME) / RATE;
  const found = [];
  let [start, quietSince] = [null, null];
  const close = (end) => {
    if ((end - start) * frameMs >= SPEECH_MS_LEAST)
      found.push({ startS: (start * frameMs) / 1000, endS: (end * frameMs) / 1000 });
    start = null;
    quietSince = null;
  };
  probabilities.forEach((probability, frame) => {
    if (probability >= SPEECH_LEAST) {
      start ??= frame;
      quietSince = null;
    } else if (start !== null && probability < SILENCE_MOST) {
      quietSince ??= frame;
      if ((frame - quietSince) * frameMs >= SILENCE_MS_LEAST) close(quietSince);
    }
  });
  if (start !== null) close(quietSince ?? probabilities.length);
  return found;
}
