// The labelled test images beside an elastic model: NAME.bin, uint8 pixels, and NAME.labels.bin, a byte each; or the same as .gz.
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";

const fileOf = (folder, name) => [name, `${name}.gz`].map((each) => path.join(folder, each)).find(existsSync);

/** @returns null: there are none of this task. `image(at)` is as the model takes it: 0..1, one channel. */
export function testImages(folder, task) {
  const files = [fileOf(folder, `${task}.bin`), fileOf(folder, `${task}.labels.bin`)];
  if (files.includes(undefined)) return null;
  const [pixels, labels] = files.map((file) =>
    file.endsWith(".gz") ? gunzipSync(readFileSync(file)) : readFileSync(file),
  );
  const each = pixels.length / labels.length;
  const image = (at) => Float32Array.from(pixels.subarray(at * each, (at + 1) * each), (value) => value / 255);
  return { labels, side: Math.sqrt(each), image };
}
