import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { missingImports } from "./step-imports.js";

let root: string;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "rubato-imports-"));
});
afterEach(() => rmSync(root, { recursive: true }));

it("packages are looked for from the step's folder upwards, files beside it; Node's own are there", () => {
  mkdirSync(path.join(root, "node_modules", "@scope", "there"), { recursive: true });
  mkdirSync(path.join(root, "models", "p"), { recursive: true });
  writeFileSync(path.join(root, "models", "p", "beside.mjs"), "");
  const file = path.join(root, "models", "p", "s.mjs");
  writeFileSync(
    file,
    [
      'import { readFileSync } from "node:fs";',
      'import path from "path";',
      'import one from "@scope/there/deep";',
      "import {\n  two,\n  three,\n} from '@scope/gone';",
      'import "gone/sub";',
      'import four from "./beside.mjs";',
      'export { five } from "./away.mjs";',
      'const text = "import six from elsewhere";',
      'const late = () => import("never-looked-at");',
      "// import seven from 'a comment';",
      "export default (x) => x;",
    ].join("\n"),
  );
  expect(missingImports(file)).toEqual(["@scope/gone", "gone/sub", "./away.mjs"]);
});

it("a link's packages are those of where it leads", () => {
  mkdirSync(path.join(root, "real", "node_modules", "there"), { recursive: true });
  mkdirSync(path.join(root, "p"));
  writeFileSync(path.join(root, "real", "s.mjs"), 'import one from "there";\n');
  symlinkSync(path.join(root, "real", "s.mjs"), path.join(root, "p", "s.mjs"));
  expect(missingImports(path.join(root, "p", "s.mjs"))).toEqual([]);
});
