import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { type OipStub, type StubOptions, startGrpcStub, startHttpStub } from "../../test/support/oip-stub.js";
import { conservation } from "../measure/report.js";
import { defaultClientTimeoutMs, LOAD_DEFAULTS, type LoadOptions, type OpenLoop } from "./load-options.js";
import { loadReportText } from "./load-text.js";
import { runLoad } from "./run-load.js";

const openLoop = (rps: number): OpenLoop => ({
  kind: "open",
  process: "poisson",
  shape: 1,
  steps: [{ fromS: 0, rps }],
});
// Where validity is asserted, the SLO is long: the bound on the generator's own lag is a part of it, and this machine may be busy.
const loadOf = (targets: string[], rps: number, changes: Partial<LoadOptions> = {}): LoadOptions => ({
  ...LOAD_DEFAULTS,
  targets,
  mode: openLoop(rps),
  durationS: 0.8,
  warmupS: 0.2,
  clientTimeoutMs: defaultClientTimeoutMs(null),
  ...changes,
});
const models = { m: [{ name: "x", datatype: "FP32", shape: [-1, 4] }] } as const;

let stubs: OipStub[] = [];
async function http(options: Partial<StubOptions> = {}): Promise<OipStub> {
  const stub = await startHttpStub({ models, ...options });
  stubs.push(stub);
  return stub;
}
async function grpc(options: Partial<StubOptions> = {}): Promise<OipStub> {
  const stub = await startGrpcStub({ models, ...options });
  stubs.push(stub);
  return stub;
}
afterEach(async () => {
  const open = stubs;
  stubs = [];
  await Promise.all(open.map((stub) => stub.close()));
});

describe("load", { retry: 2 }, () => {
  it("tells the truth about a stall: a server that stalls 1 s has a p99 of at least 0.9 s (open loop)", async () => {
    let stallFrom = 0;
    const stub = await http({
      reply: () => {
        const now = performance.now();
        if (stallFrom === 0) stallFrom = now + 1000;
        return now >= stallFrom && now < stallFrom + 1000 ? { delayMs: stallFrom + 1000 - now } : {};
      },
    });
    const { report } = await runLoad(
      loadOf([`${stub.origin}/v2/models/m`], 200, { durationS: 3, warmupS: 0.5, sloMs: 10_000 }),
    );
    expect(report.void_reason).toBeNull();
    expect(report.latency_ms.p99!).toBeGreaterThan(900);
    expect(report.latency_ms.p50!).toBeLessThan(500);
    expect(stub.violations).toEqual([]);
  });

  it("counts every request exactly once and sends the deadline along", async () => {
    const stub = await http();
    const { report, latencies } = await runLoad(loadOf([`${stub.origin}/v2/models/m`], 300, { sloMs: 10_000 }));
    expect(conservation(report)).toEqual([]);
    expect(report.void_reason).toBeNull();
    expect(report.sent).toBe(stub.requests.length);
    expect(report.arrived).toBeLessThan(report.sent); // warm-up apart
    expect(report.statuses).toEqual({ "200": report.arrived });
    expect(report).toMatchObject({
      slo_met: true,
      source: "client",
      mode: "open",
      offered_rps: 300,
      slo_ms: { m: 10_000 },
    });
    expect(latencies.count).toBe(report.finished);
    expect(stub.violations).toEqual([]);
    expect(stub.requests[0]).toMatchObject({ path: "/v2/models/m/infer", parameters: { timeout: 10_000_000 } });
  });

  it("counts what the server says: dropped by reason, late without one, failed by cause", async () => {
    const replies = [
      { status: 504, body: JSON.stringify({ error: "too late", reason: "infeasible" }) },
      { status: 504, body: "gateway timeout" },
      { status: 429, body: JSON.stringify({ error: "full", reason: "queue-full" }) },
      { status: 503, body: JSON.stringify({ error: "gone", reason: "worker-crashed" }) },
      { status: 503, body: JSON.stringify({ error: "Request timeout expired" }) },
      { status: 500, body: "oops" },
      { status: 404, body: "{}" },
      { isBroken: true },
    ];
    const stub = await http({ reply: ({ number }) => replies[number % replies.length]! });
    const { report, latencies } = await runLoad(
      loadOf([`${stub.origin}/v2/models/m`], 400, {
        durationS: 1,
        warmupS: 0,
        mode: { ...openLoop(400), process: "uniform" },
      }),
    );
    expect(conservation(report)).toEqual([]);
    // 399 arrivals in (0, 1 s): every kind 49 or 50 times.
    const about50 = (count: number | undefined) => expect([49, 50]).toContain(count);
    about50(report.late);
    for (const reason of ["infeasible", "queue-full", "expired"]) about50(report.drops_by_reason[reason]);
    for (const cause of ["worker-crashed", "server-error", "rejected", "connection-lost"])
      about50(report.failures_by_cause[cause]);
    about50(report.reasons.infeasible);
    about50(report.statuses["429"]);
    about50(report.statuses["connection-lost"]);
    expect(report.finished).toBe(0);
    for (const text of ["too late", "gateway timeout", "full", "gone", "Request timeout expired", "oops"])
      about50(report.errors[text]);
    expect(loadReportText(report, latencies)).toMatch(/^ {2}(49|50) x too late$/m);
  });

  it("keeps the first eight error texts that differ, of each a part, and prints them on a line", async () => {
    const long = `line one\nline two ${"x".repeat(1000)}`;
    const stub = await grpc({
      reply: ({ number }) => ({
        status: 500,
        body: JSON.stringify({ error: number === 0 ? long : `row ${number} ${"y".repeat(number % 10)} is bad` }),
      }),
    });
    const { report, latencies } = await runLoad(loadOf([`${stub.origin}/m`], 100, { warmupS: 0, workers: 1 }));
    const texts = Object.keys(report.errors);
    expect(texts).toHaveLength(8);
    expect(texts[0]).toHaveLength(300);
    expect(texts[7]).toBe("row 7 yyyyyyy is bad");
    expect(loadReportText(report, latencies)).toContain("  1 x line one line two xxx");
  });

  it("a success after the SLO is late, and keeps its real latency", async () => {
    const stub = await http({ reply: () => ({ delayMs: 60 }) });
    const { report } = await runLoad(loadOf([`${stub.origin}/v2/models/m`], 50, { sloMs: 20 }));
    expect(report).toMatchObject({ finished: 0, late: report.arrived });
    expect(report.latency_ms.p50!).toBeGreaterThan(55);
  });

  it("a server that goes away mid-run is failed with a cause, not a crash", async () => {
    const stub = await http({
      reply: ({ number }) => {
        if (number === 50) void stub.close();
        return {};
      },
    });
    const { report } = await runLoad(loadOf([`${stub.origin}/v2/models/m`], 200, { warmupS: 0 }));
    expect(conservation(report)).toEqual([]);
    expect(report.failures_by_cause["connection-refused"]).toBeGreaterThan(50);
  });

  it("declares itself void when it cannot keep up, and says so", async () => {
    const stub = await grpc();
    // 50,000 calls a second are beyond any grpc-js client of one thread.
    const { report } = await runLoad(
      loadOf([`${stub.origin}/m`], 50_000, { durationS: 0.2, warmupS: 0, outstandingMax: 100_000 }),
    );
    expect(report.void).toBe(true);
    expect(report.void_reason).toContain("could not keep up");
    expect(report.slo_met).toBeNull();
  });

  it("declares itself void when its limit of requests under way is reached, rather than close the loop in silence", async () => {
    const stub = await http({ reply: () => ({ delayMs: 300 }) });
    const { report } = await runLoad(loadOf([`${stub.origin}/v2/models/m`], 200, { outstandingMax: 4 }));
    expect(conservation(report)).toEqual([]);
    expect(report.drops_by_reason["generator-outstanding-full"]).toBeGreaterThan(0);
    expect(report.void_reason).toContain("4 were under way");
  });

  it("limits what it reads of an answer", async () => {
    const stub = await http({ reply: () => ({ body: Buffer.alloc(10_000) }) });
    const { report } = await runLoad(loadOf([`${stub.origin}/v2/models/m`], 50, { responseBytesMax: 1000 }));
    expect(report.failures_by_cause).toEqual({ "response-too-large": report.arrived });
  });

  it("gives up on an answer that does not come", async () => {
    const stub = await http({ reply: ({ number }) => (number === 20 ? { delayMs: 60_000 } : {}) });
    const { report } = await runLoad(loadOf([`${stub.origin}/v2/models/m`], 100, { clientTimeoutMs: 300, warmupS: 0 }));
    expect(conservation(report)).toEqual([]);
    expect(report.failures_by_cause).toEqual({ "client-timeout": 1 });
  });

  it("splits the rate over several targets by share, HTTP and gRPC", async () => {
    const [one, two] = [await http(), await grpc()];
    const targets = [`${one.origin}/v2/models/m#share=3`, `${two.origin}/m#slo=400`];
    const { report } = await runLoad(loadOf(targets, 400, { durationS: 1.5 }));
    expect(conservation(report)).toEqual([]);
    expect(Object.keys(report.per_model)).toEqual([`${one.origin}/v2/models/m`, `${two.origin}/m`]);
    const part = one.requests.length / (one.requests.length + two.requests.length);
    expect(part).toBeGreaterThan(0.68);
    expect(part).toBeLessThan(0.82);
    expect(report.statuses.OK! + report.statuses["200"]!).toBe(report.arrived);
    expect([...one.violations, ...two.violations]).toEqual([]);
    expect(one.requests[0]!.parameters.timeout).toBeUndefined();
    expect(two.requests[0]!.parameters.timeout).toBe(400_000n);
  });

  it("understands a gRPC server's refusals by status and reason", async () => {
    const replies = [
      { status: 504, body: JSON.stringify({ error: "no", reason: "expired" }) },
      { status: 429, body: JSON.stringify({ error: "no" }) },
      { status: 504, body: "{}" },
      { status: 500, body: "{}" },
    ];
    const stub = await grpc({ reply: ({ number }) => replies[number % 4]! });
    const { report } = await runLoad(loadOf([`${stub.origin}/m`], 200));
    expect(conservation(report)).toEqual([]);
    expect(Object.keys(report.drops_by_reason)).toEqual(["expired", "shed"]);
    expect(Object.keys(report.failures_by_cause)).toEqual(["server-error"]);
    expect(report.late).toBeGreaterThan(0);
    expect(Object.keys(report.statuses).sort()).toEqual(["DEADLINE_EXCEEDED", "INTERNAL", "RESOURCE_EXHAUSTED"]);
  });

  it("a gRPC server that goes away mid-run is failed with a cause", async () => {
    const stub = await grpc({
      reply: ({ number }) => {
        if (number === 20) void stub.close();
        return {};
      },
    });
    const { report } = await runLoad(loadOf([`${stub.origin}/m`], 100, { warmupS: 0, clientTimeoutMs: 500 }));
    expect(conservation(report)).toEqual([]);
    const causes = Object.keys(report.failures_by_cause);
    expect(causes).toContain("connection-refused");
    for (const cause of causes) expect(["connection-refused", "connection-lost"]).toContain(cause);
  });

  it("draws variable lengths and keeps all inputs of a request equally long; JSON where binary is not offered", async () => {
    const text = [
      { name: "input_ids", datatype: "INT64", shape: [-1, -1] },
      { name: "attention_mask", datatype: "INT64", shape: [-1, -1] },
    ] as const;
    const stub = await http({ models: { m: text }, extensions: [] });
    await runLoad(loadOf([`${stub.origin}/v2/models/m`], 200, { lengths: "uniform:3:9" }));
    expect(stub.violations).toEqual([]);
    const lengths = stub.requests.map((request) => request.inputs.map((input) => input.shape[1]!));
    for (const [ids, mask] of lengths) expect(ids).toBe(mask);
    expect(new Set(lengths.map(([ids]) => ids))).toEqual(new Set([3, 4, 5, 6, 7, 8, 9]));
    expect(stub.requests[0]!.binary).toBeNull();
  });

  it("sends the requests of a file", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "rubato-load-"));
    try {
      const file = path.join(folder, "requests.jsonl");
      const line = (value: number) =>
        JSON.stringify({ inputs: [{ name: "x", shape: [1, 4], data: [[value, 2, 3, 4]] }], parameters: { app: "a" } });
      writeFileSync(file, `${line(1)}\n${line(7)}\n`);
      const stub = await http();
      await runLoad(loadOf([`${stub.origin}/v2/models/m`], 100, { data: file }));
      expect(stub.violations).toEqual([]);
      expect(new Set(stub.requests.map((request) => request.binary![0]!.readFloatLE(0)))).toEqual(new Set([1, 7]));
      expect(stub.requests[0]!.parameters.app).toBe("a");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("sends parameters to both doors, in place of a file's; the SLO goes before a timeout", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "rubato-load-"));
    try {
      const file = path.join(folder, "requests.jsonl");
      const inputs = [{ name: "x", shape: [1, 4], data: [1, 2, 3, 4] }];
      writeFileSync(file, JSON.stringify({ inputs, parameters: { task: "letters", utility: 1, mine: true } }));
      const [byHttp, byGrpc] = [await http(), await grpc()];
      await runLoad(
        loadOf([`${byHttp.origin}/v2/models/m`, `${byGrpc.origin.replace(/^http/, "grpc")}/m`], 100, {
          data: file,
          parameters: { task: "digits", utility: 2.5, timeout: 7 },
          sloMs: 1000,
        }),
      );
      for (const stub of [byHttp, byGrpc]) {
        expect(stub.violations).toEqual([]);
        const { timeout, ...others } = stub.requests[0]!.parameters;
        expect(others).toMatchObject({ task: "digits", utility: 2.5, mine: true });
        expect(Number(timeout)).toBe(1_000_000);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("closed loop: never more than so many at a time", async () => {
    let now = 0;
    let most = 0;
    const stub = await http({
      reply: () => {
        now++;
        most = Math.max(most, now);
        setTimeout(() => now--, 19);
        return { delayMs: 20 };
      },
    });
    const mode = { kind: "closed", concurrency: 3 } as const;
    const { report } = await runLoad(loadOf([`${stub.origin}/v2/models/m`], 0, { mode }));
    expect(most).toBe(3);
    expect(report).toMatchObject({ mode: "closed", offered_rps: null });
    expect(report.finished).toBeGreaterThan(10);
  });

  it("an interrupted run is void", async () => {
    const stub = await http();
    const signal = AbortSignal.timeout(600);
    const { report } = await runLoad(loadOf([`${stub.origin}/v2/models/m`], 100, { durationS: 30 }), { signal });
    expect(report.void_reason).toContain("interrupted");
    expect(conservation(report)).toEqual([]);
  });

  it.each([
    ["a model that is not there", "/v2/models/none", {}, /none: answered 404: no model 'none'/],
    [
      "an axis without extent",
      "/v2/models/v",
      {},
      /'x' has shape \[-1,-1\]: give axis 1 an extent with --shape x:1,16/,
    ],
    ["a shape for no input", "/v2/models/m", { shapes: { y: [1] } }, /--shape y: .* has no such input; it has x/],
    [
      "an unreadable file",
      "/v2/models/m",
      { data: "/nonexistent.jsonl" },
      /--data \/nonexistent.jsonl: cannot be read/,
    ],
    ["a warm-up that is all", "/v2/models/m", { warmupS: 0.8 }, /warmup \(s\) must be in \[0, duration 0.8\); was 0.8/],
    ["no rate", "/v2/models/m", { mode: openLoop(0) }, /rate \(r\/s\) must be > 0/],
    ["a wrong path", "/v1/models/m", {}, /must be http:\/\/HOST:PORT\/v2\/models\/MODEL/],
  ])("refuses %s before it sends anything", async (_, route, changes, message) => {
    const stub = await http({ models: { ...models, v: [{ name: "x", datatype: "FP32", shape: [-1, -1] }] } });
    await expect(runLoad(loadOf([`${stub.origin}${route}`], 10, changes))).rejects.toThrow(message);
    expect(stub.requests).toEqual([]);
  });

  it("refuses a server that is not there, naming it", async () => {
    const stub = await http();
    await stub.close();
    await expect(runLoad(loadOf([`${stub.origin}/v2/models/m`], 10))).rejects.toThrow(
      `${stub.origin}/v2/models/m: cannot be reached`,
    );
  });
});
