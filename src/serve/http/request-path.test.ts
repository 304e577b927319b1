import { expect, test } from "vitest";
import { parseModelPath, readAsName } from "./request-path.js";

const ACTIONS = ["infer", "ready", "config", "stats", "generate", "generate_stream"];

test.each([...ACTIONS, "versions", "index", "trace", "load"])("a model called %s is reached on every path", (name) => {
  for (const version of ["", "3"])
    for (const action of ["", ...ACTIONS]) {
      const path = [name, ...(version === "" ? [] : ["versions", version]), ...(action === "" ? [] : [action])].join(
        "/",
      );
      const expected = { name, version, action: action === "" ? "metadata" : action };
      expect(parseModelPath(path), path).toEqual(expected);
    }
  const nested = parseModelPath(`folder/${name}`)!;
  expect(readAsName(nested) ?? nested).toMatchObject({ name: `folder/${name}`, version: "", action: "metadata" });
  expect(readAsName(parseModelPath(`folder/${name}/versions/3`)!)).toBeNull();
});
