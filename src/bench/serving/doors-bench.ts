/**
 * What does a door add to an echo? Round trips of one connection and CPU per request against bare echoes of the same
 * bytes (node:http, grpc-js), each server in a process of its own, rounds interleaved in one run.
 *
 * The doors' echo decodes the request, builds the call and encodes the reply at once; the bare ones send back what
 * they read. Not for: capacity (the client shares the machine), scheduling, large bodies.
 */
import { createHash } from "node:crypto";
import type { BenchResult, BenchSize } from "../bench-result.js";
import { BenchChild } from "../child.js";
import { encodeProbe } from "../scheduling/probe-messages.js";
import type { ProbeResult } from "../scheduling/probe-run.js";
import type { EchoKind } from "./echo.js";

export interface DoorsOptions extends BenchSize {
  readonly onProgress?: (text: string) => void;
}

const PAIRS: readonly { readonly protocol: "http" | "grpc"; readonly bare: EchoKind; readonly door: EchoKind }[] = [
  { protocol: "http", bare: "http", door: "http-door" },
  { protocol: "grpc", bare: "grpc", door: "grpc-door" },
];
const SIZES = [1024, 65_536];
const ROUNDS = 8;
const ROUND_SECONDS = 0.4;

interface Side {
  readonly server: BenchChild;
  readonly client: BenchChild;
  readonly rounds: ProbeResult[];
  cpuUs: number;
}

export async function benchDoors(options: DoorsOptions = {}): Promise<BenchResult[]> {
  const results: BenchResult[] = [];
  for (const pair of PAIRS)
    for (const bytes of SIZES) {
      options.onProgress?.(`${pair.door}, ${bytes} bytes`);
      results.push(await measurePair(pair, bytes, options.size ?? 1));
    }
  return results;
}

async function measurePair(pair: (typeof PAIRS)[number], bytes: number, size: number): Promise<BenchResult> {
  const { protocol } = pair;
  const request = { protocol, model: "echo", bytes };
  const sides: Side[] = [];
  try {
    for (const kind of [pair.bare, pair.door]) {
      const side: Side = { server: new BenchChild(), client: new BenchChild(), rounds: [], cpuUs: 0 };
      sides.push(side);
      const port = await side.server.do<number>({ kind: "echo", echo: kind });
      await side.client.do({ kind: "connect", request, port });
      await side.client.do({ kind: "closed", concurrency: 1, seconds: 2 * ROUND_SECONDS * size });
    }
    for (let round = 0; round < ROUNDS; round++)
      for (const side of sides) {
        const before = await side.server.do<number>({ kind: "cpu" });
        side.rounds.push(
          await side.client.do<ProbeResult>({ kind: "closed", concurrency: 1, seconds: ROUND_SECONDS * size }),
        );
        side.cpuUs += (await side.server.do<number>({ kind: "cpu" })) - before;
      }
  } finally {
    for (const { server, client } of sides) {
      server.close();
      client.close();
    }
  }
  const [bare, door] = sides.map(({ rounds, cpuUs }) => ({
    // The least disturbed round of each.
    p50Us: Math.min(...rounds.map((round) => round.p50Us)),
    cpuUs: cpuUs / rounds.reduce((sum, round) => sum + round.count, 0),
  })) as [{ p50Us: number; cpuUs: number }, { p50Us: number; cpuUs: number }];
  const us = (value: number) => value.toFixed(0);
  return {
    name: `doors-${protocol}-${bytes / 1024}KB`,
    value: door.p50Us - bare.p50Us,
    unit: "µs added at p50",
    detail: `round trip ${us(door.p50Us)} against ${us(bare.p50Us)} µs, CPU ${us(door.cpuUs)} against ${us(bare.cpuUs)} µs a request`,
    digest: createHash("sha256").update(encodeProbe(request)).digest("hex").slice(0, 12),
    figures: { door_p50_us: door.p50Us, bare_p50_us: bare.p50Us, door_cpu_us: door.cpuUs, bare_cpu_us: bare.cpuUs },
  };
}
