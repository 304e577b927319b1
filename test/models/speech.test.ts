import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { example, type Infer, type InputTensor, inferDirectly, root } from "./direct-client.js";

interface Segment {
  readonly startS: number;
  readonly endS: number;
}
interface Stream {
  inputs(samples: Float32Array): InputTensor[];
  push(samples: Float32Array): Promise<{ probability: number }>;
}
interface SpeechModule {
  readonly FRAME: number;
  readWav(file: string): Float32Array;
  readonly SpeechStream: new (infer: Infer) => Stream;
  segments(probabilities: readonly number[]): Segment[];
}
const { FRAME, readWav, SpeechStream, segments } = await example<SpeechModule>("speech.mjs");
const wav = path.join(root, "examples", "speech.wav");
const truth: Segment[] = JSON.parse(readFileSync(path.join(root, "examples", "speech.json"), "utf8"));

const folder = mkdtempSync(path.join(tmpdir(), "rubato-speech-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function probabilities(samples: Float32Array): Promise<number[]> {
  const stream = new SpeechStream(inferDirectly);
  const found: number[] = [];
  for (let at = 0; at + FRAME <= samples.length; at += FRAME)
    found.push((await stream.push(samples.subarray(at, at + FRAME))).probability);
  return found;
}

describe("speech", () => {
  it("the three sentences are found, each end within 100 ms of where it was put", async () => {
    const found = segments(await probabilities(readWav(wav)));
    expect(found).toHaveLength(truth.length);
    found.forEach(({ startS, endS }, i) => {
      expect(Math.abs(startS - truth[i]!.startS)).toBeLessThan(0.1);
      expect(Math.abs(endS - truth[i]!.endS)).toBeLessThan(0.1);
    });
  });

  it("streams that share a batch, joined along axis 1 of the state, get the answers that each gets alone", async () => {
    const samples = readWav(wav);
    const starts = [0, 31 * FRAME, 130 * FRAME];
    const alone: number[][] = [];
    for (const start of starts) alone.push(await probabilities(samples.subarray(start, start + 40 * FRAME)));

    let state = new Float32Array(2 * starts.length * 128);
    const contexts = new Map<number, Float32Array>();
    for (let frame = 0; frame < 40; frame += 1) {
      const input = new Float32Array(starts.length * 576);
      starts.forEach((start, s) => {
        const part = samples.subarray(start + frame * FRAME, start + (frame + 1) * FRAME);
        input.set(contexts.get(s) ?? new Float32Array(64), s * 576);
        input.set(part, s * 576 + 64);
        contexts.set(s, part.slice(-64));
      });
      const { outputs } = await inferDirectly("vad", [
        { name: "input", datatype: "FP32", shape: [starts.length, 576], data: input },
        { name: "state", datatype: "FP32", shape: [2, starts.length, 128], data: state },
        { name: "sr", datatype: "INT64", shape: [], data: BigInt64Array.of(16_000n) },
      ]);
      state = outputs.stateN!.data.slice();
      starts.forEach((_, s) => {
        expect(Math.abs(outputs.output!.data[s]! - alone[s]![frame]!)).toBeLessThan(1e-4);
      });
    }
    const inputs = new SpeechStream(inferDirectly).inputs(new Float32Array(FRAME));
    expect(inputs.map((input) => input.shape)).toEqual([[1, 576], [2, 1, 128], []]);
  });

  it("segments: a short pause does not end speech, a short burst is none", () => {
    const frames = (...runs: [number, number][]) =>
      runs.flatMap(([count, value]) => new Array<number>(count).fill(value));
    const found = segments(frames([5, 0], [20, 0.9], [3, 0.1], [20, 0.9], [10, 0], [4, 0.9], [10, 0], [12, 0.9]));
    expect(found).toEqual([
      { startS: 0.16, endS: 1.536 },
      { startS: 2.304, endS: 2.688 },
    ]);
  });

  it("a file that is not 16 kHz mono 16 bit is refused with what it is", () => {
    const bytes = Buffer.from(readFileSync(wav).subarray(0, 200));
    bytes.writeUInt32LE(44_100, 24);
    const file = path.join(folder, "fast.wav");
    writeFileSync(file, bytes);
    expect(() => readWav(file)).toThrow(/44100 Hz/);
    writeFileSync(file, "no sound at all");
    expect(() => readWav(file)).toThrow(/no WAV file/);
  });
});
