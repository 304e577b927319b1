// Makes examples/speech.wav (16 kHz, one channel, 16 bits) and speech.json with where speech truly is.
//
//   node scripts/models/make-speech.mjs        (needs espeak-ng, Debian package of the same name)
//
// Three spoken sentences, cut to where they sound, are laid into faint noise at times that are written down: the truth is
// by construction, not by another detector.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const RATE = 16_000;
const NOISE = 0.0008; // amplitude; a quiet room rather than digital silence
const SOUND_LEAST = 0.01; // amplitude at which a sentence begins and ends
const SPOKEN = [
  { text: "Steal a little time from this note.", voice: "en-us+m3", pauseBeforeS: 0.9 },
  { text: "And give it back before the phrase is over.", voice: "en-gb+f2", pauseBeforeS: 1.2 },
  { text: "Nobody will miss it.", voice: "en-us+m7", pauseBeforeS: 0.7 },
];
const PAUSE_AFTER_S = 0.8;

function speak({ text, voice }) {
  const { stdout, status, error } = spawnSync("espeak-ng", ["-v", voice, "-s", "165", "--stdout", text]);
  if (error || status !== 0) throw new Error(`espeak-ng failed: ${error?.message ?? status}`);
  const rate = stdout.readUInt32LE(24);
  const count = (stdout.length - 44) >> 1;
  const samples = Float32Array.from({ length: count }, (_, i) => stdout.readInt16LE(44 + 2 * i) / 32768);
  return cut(resample(samples, rate));
}

/** Windowed sinc, 16 zero crossings to each side. */
function resample(samples, rate) {
  const [ratio, reach] = [rate / RATE, 16];
  return Float32Array.from({ length: Math.floor(samples.length / ratio) }, (_, i) => {
    let sum = 0;
    const centre = i * ratio;
    for (let k = Math.ceil(centre - reach * ratio); k <= centre + reach * ratio; k += 1) {
      const x = (k - centre) / ratio;
      const sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
      sum += (samples[k] ?? 0) * sinc * (0.5 + 0.5 * Math.cos((Math.PI * x) / reach));
    }
    return sum / ratio;
  });
}

function cut(samples) {
  const sounds = (value) => Math.abs(value) >= SOUND_LEAST;
  return samples.slice(samples.findIndex(sounds), samples.findLastIndex(sounds) + 1);
}

/** Uniform in [-1, 1), the same on every machine (a linear congruential generator). */
let state = 20231;
function noise() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 31 - 1;
}

const pieces = [];
const truth = [];
let length = 0;
for (const spoken of SPOKEN) {
  length += Math.round(spoken.pauseBeforeS * RATE);
  const samples = speak(spoken);
  pieces.push({ at: length, samples });
  truth.push({ startS: length / RATE, endS: (length + samples.length) / RATE, text: spoken.text });
  length += samples.length;
}
length += Math.round(PAUSE_AFTER_S * RATE);

const data = Buffer.alloc(2 * length);
const mix = Float32Array.from({ length }, () => NOISE * noise());
for (const { at, samples } of pieces)
  samples.forEach((value, i) => {
    mix[at + i] += value;
  });
mix.forEach((value, i) => {
  data.writeInt16LE(Math.max(-32768, Math.min(32767, Math.round(value * 32767))), 2 * i);
});

const header = Buffer.alloc(44);
header.write("RIFF", 0);
header.writeUInt32LE(36 + data.length, 4);
header.write("WAVEfmt ", 8);
header.writeUInt32LE(16, 16);
header.writeUInt16LE(1, 20);
header.writeUInt16LE(1, 22);
header.writeUInt32LE(RATE, 24);
header.writeUInt32LE(2 * RATE, 28);
header.writeUInt16LE(2, 32);
header.writeUInt16LE(16, 34);
header.write("data", 36);
header.writeUInt32LE(data.length, 40);
const at = (name) => fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
writeFileSync(at("speech.wav"), Buffer.concat([header, data]));
writeFileSync(at("speech.json"), `${JSON.stringify(truth, null, 1)}\n`);
console.log(
  `${(length / RATE).toFixed(2)} s, ${truth.map((t) => `${t.startS.toFixed(2)}-${t.endS.toFixed(2)}`).join(", ")}`,
);
