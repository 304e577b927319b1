/** Every experiment at the size that only shows that everything works: points run, figures drawn, report whole. */
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import sharp from "sharp";
import { afterAll, describe, expect, it } from "vitest";
import type { Experiment } from "./experiment.js";
import { EXPERIMENTS, experimentsNamed } from "./experiments.js";
import { digestOf } from "./point.js";
import { reportOf, writeReport } from "./report.js";
import { ResultStore } from "./result-store.js";
import { runPoint } from "./run-point.js";
import { runPoints } from "./runner.js";

const SVG_BYTES_MAX = 60_000;
const folder = mkdtempSync(path.join(tmpdir(), "rubato-reproduce-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function reportFor(experiment: Experiment) {
  // All experiments share one store: figures that show the same runs run them once.
  const store = new ResultStore(path.join(folder, "store"));
  const plan = experiment.plan("tiny");
  const get = await runPoints([plan], { store, execute: runPoint, width: 1, nowS: () => 0 });
  return reportOf([{ experiment, plan }], get, { command: "rubato reproduce", version: "0", size: "tiny" });
}

describe("experiments", () => {
  it.each(EXPERIMENTS.map((experiment) => [experiment.name, experiment] as const))(
    "%s: small runs, valid figures, a whole report",
    async (name, experiment) => {
      const report = await reportFor(experiment);
      const out = path.join(folder, name.replace("/", "-"));
      const { html, svgs } = await writeReport(report, out);
      const { presentation } = report.experiments[0]!;
      expect(presentation.figures.length).toBeGreaterThan(0);
      expect(svgs).toHaveLength(presentation.figures.length);
      const page = readFileSync(html, "utf8");
      expect(page).not.toMatch(/NaN|undefined|https?:\/\/(?!www\.w3\.org)/);
      for (const [index, file] of svgs.entries()) {
        const figure = presentation.figures[index]!;
        // librsvg refuses what is not well-formed.
        const { width, height } = await sharp(file).metadata();
        expect(Math.min(width, height), file).toBeGreaterThan(100);
        expect(statSync(file).size, file).toBeLessThan(SVG_BYTES_MAX);
        expect(page).toContain(`aria-label="${figure.title.replaceAll("&", "&amp;")}"`);
        expect(figure.rows.length, figure.id).toBeGreaterThan(0);
      }
      for (const table of presentation.tables) {
        expect(table.rows.length, table.title).toBeGreaterThan(0);
        for (const row of table.rows) expect(row, table.title).toHaveLength(table.columns.length);
      }
    },
  );

  it("every size has points, but for what is worked by hand or assumed; no two experiments have one name", () => {
    const unrun = ["orloj/fig6", "otas/fig4", "otas/fig7"];
    for (const size of ["small", "default", "full"] as const)
      for (const { name, plan } of EXPERIMENTS) expect(plan(size).points.length > 0, name).toBe(!unrun.includes(name));
    expect(new Set(EXPERIMENTS.map(({ name }) => name)).size).toBe(EXPERIMENTS.length);
  });

  it("a name is one experiment, all of a paper, or those of all papers that have it", () => {
    expect(experimentsNamed("symphony/table2").map(({ name }) => name)).toEqual(["symphony/table2"]);
    expect(["symphony", "orloj", "pard", "otas"].flatMap(experimentsNamed)).toEqual(EXPERIMENTS);
    expect(experimentsNamed("table2").map(({ name }) => name)).toEqual(["symphony/table2", "orloj/table2"]);
    expect(experimentsNamed("fig15").map(({ name }) => name)).toEqual(["symphony/fig15"]);
    for (const unknown of ["symphony/table", "able2", ""]) expect(experimentsNamed(unknown)).toEqual([]);
  });

  it("a digest names all that a result depends on, whatever the order of fields", () => {
    const [point] = experimentsNamed("symphony/table2")[0]!.plan("tiny").points;
    const reordered = JSON.parse(JSON.stringify(Object.fromEntries(Object.entries(point!).reverse())));
    expect(digestOf(reordered)).toBe(digestOf(point!));
    expect(digestOf({ ...point!, seeds: [1, 3] } as typeof point & object)).not.toBe(digestOf(point!));
  });
});
