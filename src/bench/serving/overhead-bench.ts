/**
 * What does being served cost over running the model? For the latency that doors, scheduler and worker processes add to
 * one small or large tensor, and for the rate at which they saturate.
 *
 * Served: `rubato serve` with a model that returns its input, batch 1, one accelerator, kept connections, binary
 * tensors. Direct: the same `session.run` alone, in a process of its own, over and over (so with warm caches).
 * Overhead: a quantile of served minus the *median* of direct, so that no tail of direct hides one of the server. 100 %
 * load is what a closed loop of 32 reaches; the loads are Poisson arrivals. `echo` is the same client against a bare
 * node:http (or grpc-js) that returns what it reads: client, kernel and HTTP parsing, which are in `served` too. Back to
 * back is a closed loop of 1: the same way with every thread awake.
 *
 * Not for: capacity planning (client and server share the machine), models that batch, many connections.
 */
import { createHash } from "node:crypto";
import type { BenchResult, BenchSize } from "../bench-result.js";
import { BenchChild } from "../child.js";
import { encodeProbe, type ProbeRequest } from "../scheduling/probe-messages.js";
import type { ProbeResult } from "../scheduling/probe-run.js";
import { type IdentityModel, writeIdentityModels } from "./identity-repository.js";
import { serveProcess } from "./served-process.js";
import { temporaryFolder } from "./temporary-folder.js";

export interface OverheadOptions extends BenchSize {
  /** Of each measurement; default 10. */
  readonly seconds?: number;
  readonly onProgress?: (text: string) => void;
}

const MODELS: readonly IdentityModel[] = [
  { name: "identity-1k", bytes: 1024 },
  { name: "identity-600k", bytes: 600 * 1024 },
  { name: "identity-4m", bytes: 4 * 1024 * 1024 },
];
const CASES: readonly ProbeRequest[] = [
  ...MODELS.map(({ name, bytes }) => ({ protocol: "http" as const, model: name, bytes })),
  { protocol: "grpc", model: MODELS[0]!.name, bytes: MODELS[0]!.bytes },
];
const LOADS = [0.1, 0.5, 0.8];
/** Requests under way when saturation is measured; large tensors saturate with fewer and need less memory so. */
const CONCURRENCY = 32;
const CONCURRENCY_LARGE = 8;
const GROUP = "cpu";
/** Until the compilers of both sides are done; tiny runs get less. */
const WARM_UP_S = 3;

/** @throws ServingError when server or client break. */
export async function benchOverhead(options: OverheadOptions = {}): Promise<BenchResult[]> {
  const seconds = (options.seconds ?? 10) * (options.size ?? 1);
  const { folder, remove } = temporaryFolder("overhead");
  const note = options.onProgress ?? (() => {});
  const children: BenchChild[] = [];
  const child = (): BenchChild => {
    const made = new BenchChild();
    children.push(made);
    return made;
  };
  try {
    writeIdentityModels(folder, GROUP, MODELS);
    const direct = await measureDirect(child, folder, Math.max(100, Math.ceil(20_000 * (options.size ?? 1))), note);
    note("starting the server");
    const server = await serveProcess(folder, {
      models: folder,
      groups: { [GROUP]: { kind: "onnx", count: 1, threads: 1 } },
      profile: { budget_s: 0.5 },
    });
    try {
      const results: BenchResult[] = [];
      const warmUpS = Math.min(WARM_UP_S, 30 * (options.size ?? 1));
      for (const request of CASES) {
        const { protocol, bytes } = request;
        const port = protocol === "http" ? server.httpPort : server.grpcPort;
        const echo = await measureEcho(child, request, { seconds, warmUpS, note });
        const client = child();
        results.push(
          ...(await measureCase({ request, port, client, seconds, warmUpS, directUs: direct.get(bytes)!, echo, note })),
        );
        client.close();
      }
      return results;
    } finally {
      await server.stop();
    }
  } finally {
    for (const made of children) made.close();
    remove();
  }
}

async function measureDirect(
  child: () => BenchChild,
  folder: string,
  runs: number,
  note: (text: string) => void,
): Promise<Map<number, number>> {
  const medians = new Map<number, number>();
  const process = child();
  for (const { name, bytes } of MODELS) {
    note(`direct: ${sizeName(bytes)}`);
    // A large tensor takes a thousand times as long.
    const count = Math.max(20, Math.ceil(runs / (1 + bytes / 50_000)));
    const { p50Us } = await process.do<{ p50Us: number }>({ kind: "direct", folder, model: name, runs: count });
    medians.set(bytes, p50Us);
  }
  process.close();
  return medians;
}

async function measureEcho(
  child: () => BenchChild,
  request: ProbeRequest,
  { seconds, warmUpS, note }: Pick<Case, "seconds" | "warmUpS" | "note">,
): Promise<ProbeResult> {
  note(`${caseName(request)}: echo`);
  const server = child();
  const client = child();
  const port = await server.do<number>({ kind: "echo", echo: request.protocol });
  await client.do({ kind: "connect", request, port });
  await client.do({ kind: "closed", concurrency: 1, seconds: warmUpS });
  const rps = request.bytes > 100_000 ? 20 : 200;
  const result = await client.do<ProbeResult>({ kind: "open", rps, seconds: seconds / 2, seed: 1 });
  server.close();
  client.close();
  return result;
}

interface Case {
  readonly request: ProbeRequest;
  readonly port: number;
  readonly client: BenchChild;
  readonly seconds: number;
  readonly warmUpS: number;
  readonly directUs: number;
  readonly echo: ProbeResult;
  readonly note: (text: string) => void;
}

async function measureCase(options: Case): Promise<BenchResult[]> {
  const { request, port, client, seconds, warmUpS, directUs, echo, note } = options;
  const name = caseName(request);
  const digest = createHash("sha256").update(encodeProbe(request)).digest("hex").slice(0, 12);
  const concurrency = request.bytes > 100_000 ? CONCURRENCY_LARGE : CONCURRENCY;
  await client.do({ kind: "connect", request, port });
  note(`${name}: warm-up and saturation`);
  await client.do({ kind: "closed", concurrency: 4, seconds: warmUpS });
  const full = await client.do<ProbeResult>({ kind: "closed", concurrency, seconds: seconds / 2 });
  note(`${name}: back to back`);
  const single = await client.do<ProbeResult>({ kind: "closed", concurrency: 1, seconds: seconds / 2 });
  const results: BenchResult[] = [
    {
      name: `overhead-${name}-back-to-back`,
      value: single.p50Us - directUs,
      unit: "µs added at p50",
      detail: `closed loop of 1: nothing has gone to sleep; p99 ${Math.round(single.p99Us - directUs)}, ${Math.round(single.rps)} r/s`,
      digest,
    },
    {
      name: `overhead-${name}-saturation`,
      value: full.rps,
      unit: "requests/s",
      detail: `closed loop of ${concurrency}, client and server on one machine`,
      digest,
    },
  ];
  for (const [index, load] of LOADS.entries()) {
    note(`${name}: ${load * 100} % load`);
    const rps = full.rps * load;
    const served = await client.do<ProbeResult>({ kind: "open", rps, seconds, seed: index + 1 });
    const us = (value: number) => Math.round(value);
    results.push({
      name: `overhead-${name}-load-${load * 100}`,
      value: served.p50Us - directUs,
      unit: "µs added at p50",
      detail:
        `${us(served.p50Us - echo.p50Us)} of it beyond an echo; added p99 ${us(served.p99Us - directUs)}, p99.9 ${us(served.p999Us - directUs)}; served p50 ${us(served.p50Us)}, ` +
        `direct ${us(directUs)}, echo ${us(echo.p50Us)} µs; ${us(rps)} r/s, ${served.count} requests, ${served.failed} refused, client lag p99 ${us(served.lagUs)} µs`,
      digest,
      figures: {
        load,
        rps,
        requests: served.count,
        refused: served.failed,
        served_p50_us: served.p50Us,
        served_p99_us: served.p99Us,
        served_p999_us: served.p999Us,
        direct_p50_us: directUs,
        echo_p50_us: echo.p50Us,
        added_p50_us: served.p50Us - directUs,
        added_p99_us: served.p99Us - directUs,
        added_p999_us: served.p999Us - directUs,
        client_lag_p99_us: served.lagUs,
      },
    });
  }
  return results;
}

function sizeName(bytes: number): string {
  return bytes >= 2 ** 20 ? `${bytes / 2 ** 20}MB` : `${bytes / 1024}KB`;
}

const caseName = ({ protocol, bytes }: ProbeRequest): string => `${protocol}-${sizeName(bytes)}`;
