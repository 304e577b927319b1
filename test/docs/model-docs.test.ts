/** models/README.md says what the models' files say. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";

const models = path.resolve(import.meta.dirname, "../../models");
const rows = readFileSync(path.join(models, "README.md"), "utf8")
  .split("\n")
  .flatMap((line) => {
    const [, title = "", , , slo = ""] = line.split("|").map((cell) => cell.trim());
    const name = /^`([\w-]+)`$/.exec(title)?.[1];
    return name === undefined ? [] : [{ name, slo }];
  });

it("has a row for more than a few models", () => expect(rows.length).toBeGreaterThan(8));

it.each(rows)("$name: its SLO is that of its file", ({ name, slo }) => {
  const file = ["rubato.yaml", "pipeline.yaml"].map((each) => path.join(models, name, each)).find(existsSync)!;
  const written = Number(/^slo_ms: (\d+)/m.exec(readFileSync(file, "utf8"))![1]);
  const [, value, unit] = /^(\d+) (ms|s)$/.exec(slo)!;
  expect(Number(value) * (unit === "s" ? 1000 : 1)).toBe(written);
});
