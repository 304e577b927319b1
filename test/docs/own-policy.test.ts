/** examples/own-policy.mjs as a user runs it: a policy object given to `simulate`, made of what the library exports. */
import { execFileSync, spawnSync } from "node:child_process";
import path from "node:path";
import { describe, expect, test } from "vitest";

const root = path.resolve(import.meta.dirname, "../..");

interface Row {
  readonly finished: number;
  readonly late: number;
  readonly dropped: number;
  readonly meanBatch: number;
}

function rowsOf(scenario: string): Map<string, Row> {
  const program = path.join(root, "examples/own-policy.mjs");
  const text = execFileSync(process.execPath, [program, path.join(root, scenario)], { encoding: "utf8" });
  const rows = new Map<string, Row>();
  for (const line of text.trimEnd().split("\n").slice(1)) {
    const cells = line.split(/ +/);
    const [finished, late, dropped, meanBatch] = cells.slice(-4).map(Number) as [number, number, number, number];
    rows.set(cells.slice(0, -4).join(" "), { finished, late, dropped, meanBatch });
  }
  return rows;
}

describe("a policy written outside of the library", () => {
  test("beyond capacity: nobody is late, and whoever waits longer makes larger batches", () => {
    const rows = rowsOf("scenarios/overload.yaml");
    expect([...rows.keys()]).toEqual(["patient 0.2", "patient 0.5", "deferred", "eager"]);
    const [brief, long, , eager] = [...rows.values()] as [Row, Row, Row, Row];
    const arrived = eager.finished + eager.late + eager.dropped;
    for (const { finished, late, dropped } of [brief, long]) {
      expect(late).toBe(0);
      expect(finished + dropped).toBe(arrived);
      expect(finished).toBeGreaterThan(0.4 * arrived);
    }
    expect(eager.meanBatch).toBeLessThan(brief.meanBatch);
    expect(brief.meanBatch).toBeLessThan(long.meanBatch);
  });

  test("an accelerator that breaks: its requests come back to run alone, and few are lost", () => {
    const { finished, dropped } = rowsOf("scenarios/faults/stall.yaml").get("patient 0.5")!;
    expect(finished).toBeGreaterThan(8 * dropped);
  });
});

test.each([
  [["--help"], 0, "usage: node examples/own-policy.mjs [scenario.yaml]"],
  [["--hlep"], 2, "--hlep: it must be --help or a scenario"],
  [["none.yaml"], 2, "none.yaml: no such file"],
])("asked wrongly or for help it says so: %s", (args, code, text) => {
  const program = path.join(root, "examples/own-policy.mjs");
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: "utf8" });
  expect([status, `${stdout}${stderr}`]).toEqual([code, expect.stringContaining(text)]);
  expect(stderr).not.toContain("    at ");
});
