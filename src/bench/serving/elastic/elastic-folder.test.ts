import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { drawnTask, GAMMAS, putModel, putTask, TINY } from "../../../../test/support/elastic-repository.js";
import { ElasticFolder, type TaskImage } from "./elastic-folder.js";

const PIXELS = TINY.side ** 2;
let repository: string;
let model: ElasticFolder;
beforeAll(async () => {
  repository = mkdtempSync(path.join(tmpdir(), "rubato-elastic-folder-"));
  const folder = putModel(repository, "vit");
  for (const [at, name] of ["bags", "letters"].entries()) {
    putTask(folder, drawnTask(name, 3 + at), { accuracy: undefined });
    const images = Uint8Array.from({ length: 4 * PIXELS }, (_, pixel) => (pixel * (7 + at)) % 251);
    writeFileSync(path.join(repository, `${name}.bin${at === 0 ? "" : ".gz"}`), at === 0 ? images : gzipSync(images));
    writeFileSync(path.join(repository, `${name}.labels.bin`), Uint8Array.of(0, 1, 2, 1));
  }
  model = await ElasticFolder.open(folder, TINY);
});
afterAll(async () => {
  await model.close();
  rmSync(repository, { recursive: true, force: true });
});

const images = (): TaskImage[] => ["letters", "bags"].flatMap((task) => model.images(task, 2, repository));

test("images are read from plain and compressed files, as many as are asked for", () => {
  expect(model.images("bags", 9, repository)).toHaveLength(4);
  const [first, second] = model.images("letters", 2, repository);
  expect(second).toMatchObject({ task: "letters", label: 1 });
  expect(first!.pixels).toHaveLength(PIXELS);
  expect(first!.pixels[2]).toBeCloseTo(16 / 255, 6);
});

test.each(GAMMAS)("a run at gamma %i has each image's own classes, as plain loops compute them", async (gamma) => {
  const rows = await model.run(images(), gamma);
  expect(rows.map(({ length }) => length)).toEqual([4, 4, 3, 3]);
  for (const [at, image] of images().entries()) {
    const expected = model.reference(image, gamma);
    for (const [column, logit] of rows[at]!.entries()) expect(logit).toBeCloseTo(expected[column]!, 4);
  }
});

test("a folder that is no elastic model is refused", async () => {
  const folder = putModel(repository, "plain");
  writeFileSync(path.join(folder, "rubato.yaml"), "slo_ms: 100\n");
  await expect(ElasticFolder.open(folder, TINY)).rejects.toThrow("must be an elastic model");
});
