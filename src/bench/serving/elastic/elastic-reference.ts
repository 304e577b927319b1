/**
 * The elastic vision transformer once more, one image at a time in plain loops: what the graph must agree with. Written
 * from the definitions, not from the graph.
 */
import { NO_CLASS } from "./elastic-graph.js";
import type { ElasticGeometry, ElasticWeights } from "./elastic-weights.js";

/** What a task brings. */
export interface ElasticTask {
  /** [width, columns] */
  readonly head: Float32Array;
  /** [columns] */
  readonly bias: Float32Array;
  /** The first so many columns are classes. */
  readonly classes: number;
}
export interface Adaptation {
  /** Tokens merged away in each layer. */
  readonly r: number;
  /** [layers, P, width]; none: P is 0. With prompts nothing is merged. */
  readonly prompts?: Float32Array;
  /** Layer in which the closest of the choices that merging makes goes the other way; none: in no layer. */
  readonly otherWayIn?: number;
}

/** How near merging was to another choice in each layer: the difference of two cosines. Float32 tells them apart from about 1e-7 on. */
export type MergeMargins = number[];

/** A token's row of numbers. */
type Row = Float64Array;

/**
 * Logits of an image [side * side] in 0..1, NO_CLASS past the task's classes.
 * @param margins is filled.
 */
export function elasticReference(
  geometry: ElasticGeometry,
  weights: ElasticWeights,
  image: ArrayLike<number>,
  task: ElasticTask,
  { r, prompts, otherWayIn }: Adaptation,
  margins: MergeMargins = [],
): Float64Array {
  const { layers, width, heads } = geometry;
  const promptTokens = prompts === undefined ? 0 : prompts.length / (layers * width);
  let rows = tokens(geometry, weights, image);
  let sizes: number[] = rows.map(() => 1);
  for (let at = 0; at < layers; at++) {
    const weight = (name: string): Float32Array => weights.get(`layer${at}.${name}`)!;
    for (let prompt = 0; prompt < promptTokens; prompt++) {
      const start = (at * promptTokens + prompt) * width;
      rows.push(Float64Array.from(prompts!.subarray(start, start + width)));
      sizes.push(1);
    }
    const triples = rows.map((row) =>
      dense(norm(row, weight("norm1.scale"), weight("norm1.bias")), weight("qkv.weight"), weight("qkv.bias")),
    );
    const mixed = attend(triples, sizes, width, heads);
    rows = rows.map((row, token) => sum(row, dense(mixed[token]!, weight("proj.weight"), weight("proj.bias"))));
    if (promptTokens === 0 && r > 0) {
      const keys = triples.map((triple) => meanOfHeads(triple.subarray(width, 2 * width), heads));
      const merged = merge(rows, sizes, keys, r, at === otherWayIn);
      ({ rows, sizes } = merged);
      margins[at] = merged.margin;
    }
    rows = rows.map((row) => {
      const hidden = dense(
        norm(row, weight("norm2.scale"), weight("norm2.bias")),
        weight("up.weight"),
        weight("up.bias"),
      );
      return sum(row, dense(hidden.map(gelu), weight("down.weight"), weight("down.bias")));
    });
  }
  const features = norm(rows[0]!, weights.get("norm.scale")!, weights.get("norm.bias")!);
  return dense(features, task.head, task.bias).map((logit, column) => (column < task.classes ? logit : NO_CLASS));
}

/** The class token and one token for every 4 x 4 pixels. */
function tokens({ side, width, stem }: ElasticGeometry, weights: ElasticWeights, image: ArrayLike<number>): Row[] {
  const through = (input: ArrayLike<number>, channels: number, edge: number, at: number): Float64Array =>
    convolve(input, channels, edge, weights.get(`stem${at}.weight`)!, weights.get(`stem${at}.bias`)!);
  const first = through(image, 1, side, 1).map(gelu);
  const second = through(first, stem[0], side / 2, 2).map(gelu);
  const grid = side / 4;
  const place = weights.get("place")!;
  const placed = (token: number): Row => Float64Array.from(place.subarray(token * width, (token + 1) * width));
  const patches = Array.from({ length: grid * grid }, (_, at) => {
    const channels = Float64Array.from({ length: stem[1] }, (_, channel) => second[channel * grid * grid + at]!);
    const kernel = weights.get("stem3.weight")!;
    const lifted = Float64Array.from(weights.get("stem3.bias")!, (bias, out) =>
      channels.reduce((total, value, channel) => total + value * kernel[out * stem[1] + channel]!, bias),
    );
    return sum(lifted, placed(at + 1));
  });
  return [placed(0), ...patches];
}

/** 3 x 3, every second pixel, one zero around. */
function convolve(
  input: ArrayLike<number>,
  channels: number,
  edge: number,
  kernel: Float32Array,
  bias: Float32Array,
): Float64Array {
  const half = edge / 2;
  const output = new Float64Array(bias.length * half * half);
  for (let out = 0; out < bias.length; out++)
    for (let row = 0; row < half; row++)
      for (let column = 0; column < half; column++) {
        let total = bias[out]!;
        for (let channel = 0; channel < channels; channel++)
          for (let down = 0; down < 3; down++)
            for (let right = 0; right < 3; right++) {
              const y = 2 * row + down - 1;
              const x = 2 * column + right - 1;
              if (y < 0 || x < 0 || y >= edge || x >= edge) continue;
              total +=
                input[(channel * edge + y) * edge + x]! * kernel[((out * channels + channel) * 3 + down) * 3 + right]!;
            }
        output[(out * half + row) * half + column] = total;
      }
  return output;
}

/** Triples are query (scaled), key, value; a token counts as the tokens that went into it. */
function attend(triples: readonly Row[], sizes: readonly number[], width: number, heads: number): Row[] {
  const each = width / heads;
  return triples.map((asking) => {
    const mixed = new Float64Array(width);
    for (let head = 0; head < heads; head++) {
      const start = head * each;
      const scores = triples.map((asked, token) => {
        let score = Math.log(sizes[token]!);
        for (let at = start; at < start + each; at++) score += asking[at]! * asked[width + at]!;
        return score;
      });
      const shares = softmax(scores);
      for (const [token, { length }] of triples.entries()) {
        const value = triples[token]!.subarray(length - width, length);
        for (let at = start; at < start + each; at++) mixed[at]! += shares[token]! * value[at]!;
      }
    }
    return mixed;
  });
}

interface Merged {
  readonly rows: Row[];
  readonly sizes: number[];
  readonly margin: number;
}

/** An even token and the odd ones that it is most alike to. */
interface Edge {
  readonly from: number;
  readonly to: number;
  readonly best: number;
  readonly second: number;
  readonly secondTo: number;
}

/**
 * ToMe, section 3: of tokens 2, 4, ... the r most alike to one of 1, 3, ... are averaged into it, weighted by size.
 * @param otherWay the closest choice is made the other way: who is the last to go, or whom one of them goes into.
 */
function merge(
  rows: readonly Row[],
  sizes: readonly number[],
  keys: readonly Row[],
  r: number,
  otherWay: boolean,
): Merged {
  const merges = Math.min(r, Math.floor((rows.length - 1) / 2));
  const units = keys.map((key) => key.map((value) => value / Math.sqrt(key.reduce((total, x) => total + x * x, 0))));
  const even = places(2, rows.length);
  const odd = places(1, rows.length);
  const edges = even.map((from): Edge => {
    const likeness = odd.map((to) => units[from]!.reduce((total, value, at) => total + value * units[to]![at]!, 0));
    const [first, second] = odd.map((_, at) => at).sort((one, other) => likeness[other]! - likeness[one]!);
    const isOnly = second === undefined;
    return {
      from,
      to: odd[first!]!,
      best: likeness[first!]!,
      second: isOnly ? Number.NEGATIVE_INFINITY : likeness[second]!,
      secondTo: isOnly ? odd[first!]! : odd[second]!,
    };
  });
  const ranked = [...edges].sort((one, other) => other.best - one.best || one.from - other.from);
  let gone = ranked.slice(0, merges);
  const goneMargin = (gone.at(-1)?.best ?? 0) - (ranked[merges]?.best ?? Number.NEGATIVE_INFINITY);
  const margin = Math.min(goneMargin, ...gone.map(({ best, second }) => best - second));
  if (otherWay && goneMargin === margin) gone = [...gone.slice(0, -1), ranked[merges]!];
  else if (otherWay)
    gone = gone.map((edge) => (edge.best - edge.second === margin ? { ...edge, to: edge.secondTo } : edge));
  const newSizes = [...sizes];
  const sums: Row[] = rows.map((row, token) => row.map((value) => value * sizes[token]!));
  for (const { from, to } of gone) {
    sums[to] = sum(sums[to]!, sums[from]!);
    newSizes[to]! += sizes[from]!;
  }
  const goneAt = new Set(gone.map(({ from }) => from));
  const left = [0, ...even.filter((token) => !goneAt.has(token)), ...odd];
  return {
    rows: left.map((token) => sums[token]!.map((value) => value / newSizes[token]!)),
    sizes: left.map((token) => newSizes[token]!),
    margin,
  };
}

const places = (first: number, count: number): number[] =>
  Array.from({ length: Math.max(0, Math.ceil((count - first) / 2)) }, (_, at) => first + 2 * at);

function meanOfHeads(key: Row, heads: number): Row {
  const each = key.length / heads;
  return Float64Array.from({ length: each }, (_, at) => {
    let total = 0;
    for (let head = 0; head < heads; head++) total += key[head * each + at]!;
    return total / heads;
  });
}

function norm(row: Row, scale: Float32Array, bias: Float32Array): Row {
  const mean = row.reduce((total, value) => total + value, 0) / row.length;
  const variance = row.reduce((total, value) => total + (value - mean) ** 2, 0) / row.length;
  return row.map((value, at) => ((value - mean) / Math.sqrt(variance + 1e-5)) * scale[at]! + bias[at]!);
}

function dense(row: Row, matrix: Float32Array, bias: Float32Array): Row {
  const columns = bias.length;
  const output = Float64Array.from(bias);
  for (let at = 0; at < row.length; at++) {
    const value = row[at]!;
    const start = at * columns;
    for (let column = 0; column < columns; column++) output[column]! += value * matrix[start + column]!;
  }
  return output;
}

const sum = (one: Row, other: Row): Row => one.map((value, at) => value + other[at]!);

function softmax(scores: readonly number[]): number[] {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((all, power) => all + power, 0);
  return powers.map((power) => power / total);
}

const gelu = (x: number): number => 0.5 * x * (1 + erf(x / Math.SQRT2));

/** By its power series near 0, else by the continued fraction of erfc; within 1e-12. */
function erf(x: number): number {
  const magnitude = Math.abs(x);
  if (magnitude > 6) return Math.sign(x);
  if (magnitude < 2.5) {
    let term = x;
    let total = x;
    for (let n = 1; Math.abs(term) > 1e-17; n++) {
      term *= (-x * x) / n;
      total += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * total;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (magnitude + fraction);
  return Math.sign(x) * (1 - Math.exp(-x * x) / (Math.sqrt(Math.PI) * (magnitude + fraction)));
}
