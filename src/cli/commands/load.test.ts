import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type OipStub, startHttpStub } from "../../../test/support/oip-stub.js";
import type { LoadReport } from "../../load/load-report.js";
import { reportError } from "../exit.js";
import { buildProgram } from "../program.js";

async function rubato(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const output = {
    result: (text: string) => {
      stdout += text;
    },
    note: (text: string) => {
      stderr += text;
    },
    interactive: false,
  };
  let code = 0;
  try {
    await buildProgram(output).parseAsync(["node", "rubato", "load", ...args]);
  } catch (error) {
    const write = (text: string) => {
      stderr += text;
    };
    code = reportError(error, { write });
  }
  return { code, stdout, stderr };
}

describe("rubato load", () => {
  let stub: OipStub;
  let target: string;
  beforeEach(async () => {
    stub = await startHttpStub({ models: { m: [{ name: "x", datatype: "FP32", shape: [-1, 4] }] } });
    target = `${stub.origin}/v2/models/m`;
  });
  afterEach(() => stub.close());

  it("--json prints one document and nothing on stderr; a valid run exits 0", async () => {
    const { code, stdout, stderr } = await rubato(
      target,
      "--rate",
      "100",
      "--duration",
      "0.6",
      "--slo",
      "10000",
      "--json",
    );
    const report = JSON.parse(stdout) as LoadReport;
    expect(report).toMatchObject({ void: false, offered_rps: 100, slo_ms: { m: 10_000 }, warmup_s: 0.06 });
    expect(report.finished).toBe(report.arrived);
    expect([code, stderr]).toEqual([0, ""]);
  });

  it("prints progress on stderr, the verdict and a histogram on stdout", async () => {
    const { code, stdout, stderr } = await rubato(target, "--rate", "50", "--duration", "1.3", "--slo", "10000");
    expect(code).toBe(0);
    expect(stderr).toMatch(/^1 s: sent \d+, in time \d+, bad 0, under way \d+; last second p50 /);
    expect(stdout).toMatch(/m: SLO 10000 ms met \(99 % in time\), in time 100.00 %/);
    expect(stdout).toMatch(/ - [\d.]+ ms \|#+ *\| \d+\n/);
  });

  it("a void run exits 1, says so first, and still reports", async () => {
    await stub.close();
    stub = await startHttpStub({
      models: { m: [{ name: "x", datatype: "FP32", shape: [4] }] },
      reply: () => ({ delayMs: 200 }),
    });
    const args = ["--rate", "100", "--duration", "0.6", "--outstanding", "2", "--quiet"];
    const { code, stdout, stderr } = await rubato(`${stub.origin}/v2/models/m`, ...args);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^VOID: .*2 were under way/);
    expect(stderr).toMatch(/^rubato: the run is void: /);
  });

  it("a run in which all requests failed exits 1 and still reports", async () => {
    await stub.close();
    stub = await startHttpStub({
      models: { m: [{ name: "x", datatype: "FP32", shape: [4] }] },
      reply: () => ({ status: 500 }),
    });
    const args = [`${stub.origin}/v2/models/m`, "--concurrency", "2", "--duration", "0.5", "--quiet"];
    const failed = await rubato(...args);
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringMatching(/^rubato: all of \d+ requests failed/)]);
    expect(failed.stdout).toContain("failed");
  });

  it("follows a trace, scaled to --rate", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "rubato-load-"));
    try {
      const file = path.join(folder, "trace.csv");
      writeFileSync(file, "second,requests_per_second\n0,10\n0.5,30\n");
      const { stdout } = await rubato(
        target,
        "--trace",
        file,
        "--rate",
        "100",
        "--process",
        "uniform",
        "--json",
        "--warmup",
        "0",
      );
      expect(JSON.parse(stdout)).toMatchObject({ duration_s: 1, offered_rps: 100, arrived: 99 });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  // Threads run the built code; `npm test` builds first.
  const isBuilt = existsSync(new URL("../../../dist/load/load-worker.js", import.meta.url));
  it.skipIf(!isBuilt)("threads together send the one schedule, every request once", async () => {
    const args = [target, "--rate", "200", "--duration", "0.6", "--slo", "10000", "--json"];
    const one = JSON.parse((await rubato(...args)).stdout) as LoadReport;
    const sentByOne = stub.requests.length;
    const two = JSON.parse((await rubato(...args, "--workers", "2")).stdout) as LoadReport;
    expect(two.arrived).toBe(one.arrived);
    expect(two.sent).toBe(one.sent);
    expect(stub.requests.length).toBe(2 * sentByOne);
    expect(two.latency_ms.p50).toBeGreaterThan(0);
  });

  it.skipIf(!isBuilt)("a thread's refusal is the run's", async () => {
    const { code, stderr } = await rubato(`${stub.origin}/v2/models/none`, "--workers", "2");
    expect([code, stderr]).toEqual([1, expect.stringContaining("no model 'none'")]);
  });

  it.each([
    [["http://h/m"], 2, "target 'http://h/m': path '/m' must be http://HOST:PORT/v2/models/MODEL"],
    [
      ["--rate", "-1", "http://h/v2/models/m"],
      2,
      "--rate <rps>' argument '-1' is invalid. It must be a number above 0",
    ],
    [["--trace", "/nonexistent.csv", "http://h/v2/models/m"], 2, "--trace /nonexistent.csv: cannot be read"],
    [["--concurrency", "2", "--rate", "3", "http://h/v2/models/m"], 2, "--concurrency is a closed loop"],
    [["--warmup", "20", "http://h/v2/models/m"], 2, "warmup (s) must be in [0, duration 10); was 20"],
    [["--shape", "x", "http://h/v2/models/m"], 2, "--shape must be NAME:EXTENT,EXTENT"],
    [["http://127.0.0.1:1/v2/models/m"], 1, "http://127.0.0.1:1/v2/models/m: cannot be reached"],
    [[], 2, "missing required argument 'targets'"],
  ])("%j exits %d", async (args, expected, message) => {
    const { code, stdout, stderr } = await rubato(...args);
    expect([code, stdout]).toEqual([expected, ""]);
    expect(stderr).toContain(message);
  });
});
