import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { reportError } from "../exit.js";
import { buildProgram } from "../program.js";
import { formatSeconds } from "./reproduce.js";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-reproduce-cli-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function reproduce(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let [stdout, stderr, code] = ["", "", 0];
  const output = {
    result: (text: string) => {
      stdout += text;
    },
    note: (text: string) => {
      stderr += `${text}\n`;
    },
    interactive: false,
  };
  try {
    await buildProgram(output).parseAsync(["node", "rubato", "reproduce", ...args]);
  } catch (error) {
    code = reportError(error, {
      write: (text: string) => {
        stderr += text;
      },
    });
  }
  return { code, stdout, stderr };
}

describe("rubato reproduce", () => {
  it("says with exit 2, before any point is run, that the output folder cannot be written", async () => {
    const file = path.join(folder, "a-file");
    writeFileSync(file, "");
    mkdirSync(path.join(folder, "taken", "points.jsonl"), { recursive: true });
    for (const out of [file, path.join(file, "below"), path.join(folder, "taken")]) {
      const { code, stderr } = await reproduce("symphony/fig5", "--out", out);
      expect(code, out).toBe(2);
      expect(stderr).toContain(`--out: must be a folder that can be written; was ${out} (`);
      expect(stderr).not.toMatch(/^ +at /m);
    }
  });

  it("without an argument: the list, for people and for machines", async () => {
    const list = await reproduce();
    expect(list.stdout).toMatch(/^symphony\/table2 +Table 2/);
    const names = JSON.parse((await reproduce("--json")).stdout).map(({ name }: { name: string }) => name);
    for (const figure of [1, 2, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16])
      expect(names).toContain(`symphony/fig${figure}`);
    for (const name of [
      "table2",
      "table3",
      "table4",
      "table5",
      "fig3",
      "fig7",
      "fig8",
      "fig9",
      "fig10",
      "fig11",
      "fig13",
      "fig14",
      "load",
      "sweep",
      "constants",
    ])
      expect(names).toContain(`orloj/${name}`);
  });

  it("runs, prints a table, writes a report; again it runs nothing; --fresh runs anew; all the same", async () => {
    const out = path.join(folder, "out");
    const first = await reproduce("symphony/fig5", "--out", out, "--threads", "1");
    expect(first.code, first.stderr).toBe(0);
    expect(first.stdout).toContain("Requests dropped in 36 ms");
    expect(first.stdout).toContain("holds  deferred drops nobody");
    for (const file of ["report.html", "report.json", "fig5.svg", "points.jsonl"])
      expect(existsSync(path.join(out, file)), file).toBe(true);
    const points = readFileSync(path.join(out, "points.jsonl"), "utf8");
    const again = await reproduce("symphony/fig5", "--out", out, "--json");
    expect(again.stderr).toContain("2 of 2 points (2 kept)");
    expect(readFileSync(path.join(out, "points.jsonl"), "utf8")).toBe(points);
    const document = JSON.parse(again.stdout);
    expect(document).toEqual(JSON.parse(readFileSync(path.join(out, "report.json"), "utf8")));
    expect(document.experiments[0]).toMatchObject({ name: "symphony/fig5", command: "rubato reproduce symphony/fig5" });
    const fresh = await reproduce("symphony/fig5", "--out", out, "--fresh", "--json");
    expect(fresh.stderr).not.toContain("kept");
    expect(JSON.parse(fresh.stdout)).toEqual(document);
  });

  it("takes several names into one report, each experiment once and in the order given", async () => {
    const out = path.join(folder, "several");
    const { code, stderr, stdout } = await reproduce("symphony/fig5", "symphony/fig4", "fig5", "--out", out, "--json");
    expect(code, stderr).toBe(0);
    const { command, experiments } = JSON.parse(stdout);
    expect(command).toBe("rubato reproduce symphony/fig5 symphony/fig4 fig5");
    expect(experiments.map(({ name }: { name: string }) => name)).toEqual(["symphony/fig5", "symphony/fig4"]);
  });

  it("refuses an unknown experiment, alone or beside a known one, before it runs any, and a size that is not one, naming what there is", async () => {
    const unknown = await reproduce("symphony/table3");
    expect([unknown.code, unknown.stdout]).toEqual([2, ""]);
    expect(unknown.stderr).toContain("must be symphony, orloj, pard, otas or one of symphony/table2");
    expect(unknown.stderr).toContain("was 'symphony/table3'; did you mean symphony/table2?");
    const second = await reproduce("symphony/fig5", "symphony/fig99", "--out", path.join(folder, "none"));
    expect([second.code, second.stdout, existsSync(path.join(folder, "none"))]).toEqual([2, "", false]);
    expect(second.stderr).toContain("was 'symphony/fig99'");
    expect((await reproduce("symphony/fig5", "--size", "huge")).stderr).toContain("small, default, full");
  });

  it("refuses --data-dir where nothing reads traces, and a folder that has none, before anything is run", async () => {
    const out = path.join(folder, "without");
    const nobody = await reproduce("symphony/fig5", "--data-dir", folder, "--out", out);
    expect([nobody.code, nobody.stdout, existsSync(out)]).toEqual([2, "", false]);
    expect(nobody.stderr).toContain(
      "--data-dir: only experiments of pard and otas read traces; was given with symphony/fig5",
    );
    const empty = await reproduce("pard/fig8", "--data-dir", folder, "--out", out);
    expect([empty.code, empty.stdout, existsSync(out)]).toEqual([2, "", false]);
    expect(empty.stderr).toContain(`${path.join(folder, "wiki_en_2016-01_week_1h-to-60s.csv")}: no such file`);
  });

  it("says how long in seconds, minutes, hours", () => {
    expect([0.4, 89, 100, 5000, 9000].map(formatSeconds)).toEqual(["1 s", "89 s", "2 min", "83 min", "2 h 30 min"]);
  });
});
