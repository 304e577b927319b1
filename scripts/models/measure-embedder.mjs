// Compares exports of the embedder with the original: quality, exactness of padding, speed, memory.
//
//   node scripts/models/measure-embedder.mjs fp32.onnx w8.onnx ...
//
// quality   cosine to the PyTorch fp32 vectors of test/models/fixtures, and over the pairs there: the largest change of
//           a pair's similarity, Pearson and Spearman correlation of the similarities with the original's, and
//           Spearman with the grades that a person gave
// padding   largest difference of an element between a sentence run alone at its own length and the same sentence
//           in a batch of 16 mixed sentences padded to 128; alone, padded to 256; and in a batch of 16 at equal length
// speed     ms of CPU time per run, median, one thread, at 8, 32, 128 tokens and batches of 1, 4, 16. CPU time is
//           wall time on an idle core, and other processes disturb it less.
import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { ort } from "../../dist/worker/onnx/onnx-runtime.js";

const WIDTH = 384;
const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
const fixture = (name) => JSON.parse(readFileSync(path.join(root, "test", "models", "fixtures", name), "utf8"));
const pairs = fixture("sentence-pairs.json");
const sentences = fixture("sentence-reference.json").sentences.map((s) => ({ ...s, original: floats(s.embedding) }));
const byText = new Map(sentences.map((s) => [s.text, s]));

function floats(base64) {
  const bytes = Buffer.from(base64, "base64");
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const maxDifference = (a, b) => a.reduce((max, value, i) => Math.max(max, Math.abs(value - b[i])), 0);
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

function pearson(x, y) {
  const mean = (v) => v.reduce((s, a) => s + a, 0) / v.length;
  const [mx, my] = [mean(x), mean(y)];
  const sum = (f) => x.reduce((s, _, i) => s + f(x[i] - mx, y[i] - my), 0);
  return sum((a, b) => a * b) / Math.sqrt(sum((a) => a * a) * sum((_, b) => b * b));
}

/** Ranks with ties shared. */
function ranks(values) {
  return values.map((v) => values.filter((w) => w < v).length + (values.filter((w) => w === v).length - 1) / 2);
}
const spearman = (x, y) => pearson(ranks(x), ranks(y));

async function embed(session, rows, length = Math.max(...rows.map((r) => r.length))) {
  const ids = new BigInt64Array(rows.length * length);
  const mask = new BigInt64Array(rows.length * length);
  rows.forEach((row, r) => {
    row.forEach((id, i) => {
      ids[r * length + i] = BigInt(id);
      mask[r * length + i] = 1n;
    });
  });
  const dims = [rows.length, length];
  const out = await session.run({
    input_ids: new ort.Tensor("int64", ids, dims),
    attention_mask: new ort.Tensor("int64", mask, dims),
  });
  return rows.map((_, r) => out.embedding.data.slice(r * WIDTH, (r + 1) * WIDTH));
}

async function measure(file) {
  const rssBefore = process.memoryUsage().rss;
  const session = await ort.InferenceSession.create(file, { intraOpNumThreads: 1, interOpNumThreads: 1 });
  const loaded = process.memoryUsage().rss - rssBefore;

  const alone = new Map();
  for (const s of sentences) alone.set(s.text, (await embed(session, [s.ids]))[0]);
  const cosines = sentences.map((s) => dot(alone.get(s.text), s.original));
  const ours = pairs.map((p) => dot(alone.get(p.a), alone.get(p.b)));
  const theirs = pairs.map((p) => dot(byText.get(p.a).original, byText.get(p.b).original));
  const grades = pairs.map((p) => p.grade);

  let mixed = 0;
  for (let at = 0; at < sentences.length; at += 16) {
    const group = sentences.slice(at, at + 16);
    const rows = await embed(
      session,
      group.map((s) => s.ids),
      128,
    );
    rows.forEach((row, i) => {
      mixed = Math.max(mixed, maxDifference(row, alone.get(group[i].text)));
    });
  }
  let padded = 0;
  for (const s of sentences)
    padded = Math.max(padded, maxDifference((await embed(session, [s.ids], 256))[0], alone.get(s.text)));
  let equal = 0;
  const counts = Map.groupBy ? Map.groupBy(sentences, (s) => s.ids.length) : group(sentences);
  for (const same of counts.values()) {
    const rows = await embed(
      session,
      Array.from({ length: 16 }, (_, i) => same[i % same.length].ids),
    );
    rows.forEach((row, i) => {
      equal = Math.max(equal, maxDifference(row, alone.get(same[i % same.length].text)));
    });
  }

  const speed = {};
  const words = sentences.flatMap((s) => s.ids);
  for (const length of [8, 32, 128])
    for (const batch of [1, 4, 16]) {
      const rows = Array.from({ length: batch }, (_, b) => words.slice(b * 7, b * 7 + length));
      await embed(session, rows);
      const runs = Math.max(5, Math.min(60, Math.round(1500 / (length * batch * 0.15 + 2))));
      const times = [];
      for (let i = 0; i < runs; i += 1) {
        const start = process.cpuUsage();
        await embed(session, rows);
        const used = process.cpuUsage(start);
        times.push((used.user + used.system) / 1000);
      }
      speed[`${length}x${batch}`] = Number(median(times).toFixed(2));
    }
  await session.release();
  const round = (v) => Number(v.toPrecision(3));
  return {
    file: path.basename(file),
    megabytes: Number((readFileSync(file).length / 1e6).toFixed(1)),
    rssMb: Math.round(loaded / 1e6),
    cosineMin: Number(Math.min(...cosines).toFixed(5)),
    similarityChangeMax: round(maxDifference(ours, theirs)),
    pearson: Number(pearson(ours, theirs).toFixed(6)),
    spearman: Number(spearman(ours, theirs).toFixed(5)),
    spearmanGrades: Number(spearman(ours, grades).toFixed(4)),
    spearmanGradesOriginal: Number(spearman(theirs, grades).toFixed(4)),
    paddingMixed16: round(mixed),
    paddingAlone256: round(padded),
    batch16EqualLength: round(equal),
    ...speed,
  };
}

function group(items) {
  const groups = new Map();
  for (const s of items) groups.set(s.ids.length, [...(groups.get(s.ids.length) ?? []), s]);
  return groups;
}

for (const file of process.argv.slice(2)) console.log(JSON.stringify(await measure(file)));
