/**
 * Does waiting until the last moment serve more real sentences in time than going at once, or waiting a fixed time?
 *
 * The embedder on two workers of one thread, open-loop Poisson load over HTTP with lengths of real sentences, SLO = twice
 * the profiled time of the longest sentence alone. Policies are models of one server, in turn on the same workers with
 * the same profile, so that a machine that drifts hits all alike. Peak goodput: the highest offered rate with at most
 * 1 % bad, by bisection for each seed apart; its spread over the seeds is the noise.
 *
 * Not for: GPUs, where batching gains far more; absolute rates of a machine that does anything else.
 */
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { defaultClientTimeoutMs, LOAD_DEFAULTS, type LoadOptions } from "../../load/load-options.js";
import type { LoadReport } from "../../load/load-report.js";
import { runLoad } from "../../load/run-load.js";
import { mean, standardDeviation } from "../../measure/statistics.js";
import type { BenchResult, BenchSize } from "../bench-result.js";
import { CPU_WORKERS, measureProfile, timesOf } from "./measured-profile.js";
import { type PolicyModel, shippedModel, writePolicyModels } from "./policy-models.js";
import { sentenceLengths } from "./sentence-lengths.js";
import { type ServedProcess, serveProcess } from "./served-process.js";
import { temporaryFolder } from "./temporary-folder.js";

export interface EmbedderOptions extends BenchSize {
  /** Of each run; default 10. */
  readonly seconds?: number;
  readonly dataDir?: string | null;
  readonly onProgress?: (text: string) => void;
}

const GROUP = "cpu";
const LENGTHS = 1000;
const BAD_MAX = 0.01;
/** Of the SLO: what a timeout may wait. */
const TIMEOUT_FRACTIONS = [0.05, 0.1, 0.2, 0.4];
/** Of the rate that a closed loop reaches under the eager policy. */
const OFFERED = [0.5, 0.7, 0.9, 1.1];
const CLOSED_LOOP = 16;
const HALVINGS = 6;

export async function benchEmbedder(options: EmbedderOptions = {}): Promise<BenchResult[]> {
  const size = options.size ?? 1;
  const isTiny = size < 0.1;
  const plan: Plan = {
    seconds: Math.max(0.5, (options.seconds ?? 10) * size),
    seeds: isTiny ? [1] : [1, 2, 3].slice(0, Math.max(2, Math.round(3 * size))),
    timeouts: isTiny ? TIMEOUT_FRACTIONS.slice(0, 1) : TIMEOUT_FRACTIONS,
    offered: isTiny ? OFFERED.slice(0, 1) : OFFERED,
    halvings: isTiny ? 1 : HALVINGS,
    profileS: Math.max(0.5, 10 * size),
    note: options.onProgress ?? (() => {}),
  };
  const { folder, remove } = temporaryFolder("embedder");
  try {
    const { tokens, longest, source: sentences } = sentenceLengths(options.dataDir ?? null, LENGTHS, 1);
    const lengths = path.join(folder, "lengths.txt");
    writeFileSync(lengths, tokens.join("\n"));
    const source = shippedModel("embedder");
    plan.note(`profiling the model for ${plan.profileS} s`);
    const profile = await measureProfile(folder, source, plan.profileS);
    const sloMs = Math.ceil(2 * timesOf(profile, longest).aloneMs);
    const models = modelsOf(plan);
    const repository = path.join(folder, "models");
    writePolicyModels(repository, source, models, sloMs, profile);
    plan.note(`starting the server; SLO ${sloMs} ms, sentences: ${sentences}`);
    const server = await startServer(folder, repository, plan);
    try {
      const digest = createHash("sha256").update(tokens.join()).digest("hex").slice(0, 12);
      return await new Comparison(plan, models, { server, lengths, sloMs, digest, sentences }).measure();
    } finally {
      await server.stop();
    }
  } finally {
    remove();
  }
}

interface Plan {
  readonly seconds: number;
  readonly seeds: readonly number[];
  readonly timeouts: readonly number[];
  readonly offered: readonly number[];
  readonly halvings: number;
  readonly profileS: number;
  readonly note: (text: string) => void;
}

function modelsOf({ timeouts }: Plan): PolicyModel[] {
  const model = (name: string, policy: string, policyOptions = {}): PolicyModel => ({
    name,
    group: GROUP,
    policy,
    policyOptions,
  });
  return [
    model("deferred", "deferred"),
    model("eager", "eager"),
    model("deferred-plus", "deferred+"),
    ...timeouts.map((part) => model(`timeout-${part}`, "timeout", { timeout_fraction: part })),
  ];
}

function startServer(folder: string, models: string, { profileS }: Plan): Promise<ServedProcess> {
  return serveProcess(folder, { models, groups: { [GROUP]: CPU_WORKERS }, profile: { budget_s: profileS } });
}

interface Setting {
  readonly server: ServedProcess;
  readonly lengths: string;
  readonly sloMs: number;
  readonly digest: string;
  readonly sentences: string;
}

class Comparison {
  constructor(
    private readonly plan: Plan,
    private readonly models: readonly PolicyModel[],
    private readonly setting: Setting,
  ) {}

  async measure(): Promise<BenchResult[]> {
    const { note, offered } = this.plan;
    note("capacity");
    const eager = this.models[1]!;
    const closed = { kind: "closed", concurrency: CLOSED_LOOP } as const;
    // With a deadline that nobody misses: what is dropped is not capacity.
    const full = await this.load(eager.name, closed, 1, 50 * this.setting.sloMs);
    const capacity = Math.max(1, full.finished / (full.duration_s - full.warmup_s));
    const results = [this.result("embedder-capacity", capacity, "requests/s", `closed loop of ${CLOSED_LOOP}, eager`)];
    const goodputs = new Map<string, number>();
    for (const part of offered) {
      const rows = await this.atRate(capacity * part, part);
      for (const { model, row, goodput } of rows) {
        results.push(row);
        goodputs.set(model, (goodputs.get(model) ?? 0) + goodput);
      }
    }
    const timeouts = this.models.filter(({ policy }) => policy === "timeout");
    const best = timeouts.reduce((a, b) => (goodputs.get(b.name)! > goodputs.get(a.name)! ? b : a));
    results.push(...(await this.peaks([...this.models.slice(0, 3), best], capacity)));
    return results;
  }

  private async atRate(rps: number, part: number) {
    const reports = new Map<string, LoadReport[]>(this.models.map(({ name }) => [name, []]));
    for (const seed of this.plan.seeds)
      for (const { name } of this.models) {
        this.plan.note(`${rps.toFixed(1)} requests/s, seed ${seed}: ${name}`);
        reports.get(name)!.push(await this.open(name, rps, seed));
      }
    return this.models.map(({ name }) => {
      const runs = reports.get(name)!;
      const over = (read: (report: LoadReport) => number) => mean(runs.map(read));
      const goodput = over((report) => report.goodput_rps);
      const sd = spread(runs.map((report) => report.goodput_rps));
      const bad = over((report) => report.bad_rate);
      const p50 = over((report) => report.latency_ms.p50 ?? 0);
      const p99 = over((report) => report.latency_ms.p99 ?? 0);
      const detail =
        `offered ${rps.toFixed(1)} (${part} of capacity), ± ${sd.toFixed(1)} over ${runs.length} seeds; bad ` +
        `${(100 * bad).toFixed(2)} %, p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, SLO ${this.setting.sloMs} ms${voids(runs)}`;
      const figures = {
        offered_rps: rps,
        goodput_sd: sd,
        bad_rate: bad,
        p50_ms: p50,
        p99_ms: p99,
        slo_ms: this.setting.sloMs,
      };
      const row = this.result(`embedder-${name}-offered-${part}`, goodput, "requests/s in time", detail, figures);
      return { model: name, row, goodput };
    });
  }

  /** Every policy's bracket is halved in turn, each seed by itself. */
  private async peaks(models: readonly PolicyModel[], capacity: number): Promise<BenchResult[]> {
    const { seeds, halvings, note } = this.plan;
    const searches = models.flatMap(({ name }) =>
      seeds.map((seed) => ({ name, seed, low: 0.1 * capacity, high: 1.3 * capacity, voids: 0 })),
    );
    for (let step = 0; step < halvings; step++)
      for (const search of searches) {
        const rps = (search.low + search.high) / 2;
        note(
          `peak, step ${step + 1} of ${halvings}: ${search.name} at ${rps.toFixed(1)} requests/s, seed ${search.seed}`,
        );
        const report = await this.open(search.name, rps, search.seed);
        if (report.void) search.voids++;
        if (report.bad_rate <= BAD_MAX) search.low = rps;
        else search.high = rps;
      }
    return models.map(({ name }) => {
      const own = searches.filter((search) => search.name === name);
      const peaks = own.map(({ low, high }) => (low + high) / 2);
      const sd = spread(peaks);
      const voidRuns = own.reduce((sum, search) => sum + search.voids, 0);
      const detail =
        `highest offered rate with at most 1 % bad, ± ${sd.toFixed(1)} over ${seeds.length} seeds, to ` +
        `${(own[0]!.high - own[0]!.low).toFixed(1)}; SLO ${this.setting.sloMs} ms, ${this.setting.sentences}` +
        (voidRuns > 0 ? `; ${voidRuns} runs were void` : "");
      return this.result(`embedder-${name}-peak`, mean(peaks), "requests/s", detail, { peak_sd: sd });
    });
  }

  private open(model: string, rps: number, seed: number): Promise<LoadReport> {
    return this.load(model, { kind: "open", process: "poisson", shape: 1, steps: [{ fromS: 0, rps }] }, seed, null);
  }

  /** @param sloMs null: the model's own. */
  private async load(
    model: string,
    mode: LoadOptions["mode"],
    seed: number,
    sloMs: number | null,
  ): Promise<LoadReport> {
    const { server, lengths } = this.setting;
    const judgedMs = sloMs ?? this.setting.sloMs;
    const { report } = await runLoad({
      ...LOAD_DEFAULTS,
      targets: [`http://127.0.0.1:${server.httpPort}/v2/models/${model}`],
      mode,
      durationS: this.plan.seconds,
      warmupS: this.plan.seconds / 5,
      sloMs: judgedMs,
      seed,
      lengths,
      encoding: "binary",
      samples: LENGTHS,
      clientTimeoutMs: defaultClientTimeoutMs(judgedMs),
      // The workers need the cores.
      isSpinning: false,
    });
    return report;
  }

  private result(
    name: string,
    value: number,
    unit: string,
    detail: string,
    figures: Readonly<Record<string, number>> = {},
  ): BenchResult {
    return { name, value, unit, detail, digest: this.setting.digest, figures };
  }
}

const spread = (values: readonly number[]): number => (values.length < 2 ? 0 : standardDeviation(values));

function voids(runs: readonly LoadReport[]): string {
  const count = runs.filter((report) => report.void).length;
  return count === 0 ? "" : `; ${count} of ${runs.length} runs were void`;
}
