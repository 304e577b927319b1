/** What `rubato bench` can run. Heavy rooms are loaded when a benchmark runs, not when it is listed. */
import type { BenchResult } from "./bench-result.js";

export interface BenchOptions {
  /** Work relative to the full size. */
  readonly size: number;
  /** Of each timed run; undefined: the benchmark's own. */
  readonly seconds: number | undefined;
  readonly dataDir: string | null;
  /** Where figures are written; default: nowhere. */
  readonly figuresDir?: string | null;
  /** Of plus: only the cases that this seed draws; of default: the settings. */
  readonly casesSeed?: number | undefined;
  /** Of default's simulated settings: deviation of requests' times, relative to their mean; undefined: they do not spread. */
  readonly spread?: number | undefined;
  /** Of default: one of its parts; undefined: both. */
  readonly part?: "simulated" | "live" | undefined;
  /** Of apps: an app's requests become twice as long, in place of the comparison. */
  readonly drift?: boolean;
  readonly profiler?: boolean;
  /** Of apps, pipelines and elastic: relative to the capacity; undefined: the benchmark's own. */
  readonly loads?: readonly number[] | undefined;
  /** Of elastic: those that are fixed in comparison; undefined: all of the model's. */
  readonly gammas?: readonly number[] | undefined;
  /** Of default, apps, pipelines and elastic: where finished cases are kept. */
  readonly outDir?: string | null;
  readonly onProgress: (text: string) => void;
}

export interface Bench {
  readonly name: string;
  readonly isFor: string;
  readonly isNotFor: string;
  /** At full size. */
  readonly takes: string;
  /** Runs when no name is given. */
  readonly isQuick: boolean;
  run(options: BenchOptions): Promise<readonly BenchResult[]>;
}

export const BENCHES: readonly Bench[] = [
  {
    name: "core",
    isFor: "arrivals that the scheduling core alone decides per CPU-second, in virtual time",
    isNotFor: "the latency of a decision, or a server",
    takes: "20 s",
    isQuick: true,
    run: async (options) => (await import("./scheduling/core-bench.js")).benchCore(options),
  },
  {
    name: "scheduler",
    isFor: "requests per CPU-second on threads and in the core, cost per event, two queue threads against one",
    isNotFor: "the latency of a decision; machines that do anything else meanwhile",
    takes: "3 min",
    isQuick: false,
    run: async (options) => (await import("./scheduling/scheduler-bench.js")).benchScheduler(options),
  },
  {
    name: "distribution",
    isFor:
      "insertion, deletion and query of ORLOJ's scores over the requests that wait, against lines by deadline and a scan",
    isNotFor: "what a scheduler does with the answer",
    takes: "6 s",
    isQuick: false,
    run: async (options) => (await import("./scheduling/distribution-bench.js")).benchDistribution(options),
  },
  {
    name: "pard",
    isFor: "what PARD costs a request: its double-ended queue, the broker's decision, the state planner",
    isNotFor: "the latency of a server",
    takes: "10 s",
    isQuick: false,
    run: async (options) => (await import("./scheduling/pard-bench.js")).benchPard(options),
  },
  {
    name: "otas",
    isFor:
      "OTAS's allocators: what they lose against every plan on small queues, what a plan and a decision cost, what each option of the policy earns in simulation",
    isNotFor: "the paper's evaluation: that is `rubato reproduce`",
    takes: "2 min",
    isQuick: false,
    run: async (options) => (await import("./otas/otas-bench.js")).benchOtas(options),
  },
  {
    name: "simulate",
    isFor: "simulated requests per wall second with the whole report, as `rubato simulate` runs",
    isNotFor: "comparing policies: that is `rubato goodput`",
    takes: "15 s",
    isQuick: true,
    run: async (options) => (await import("./scheduling/core-bench.js")).benchSimulate(options),
  },
  {
    name: "overhead",
    isFor: "what being served adds to running the model, batch 1, by tensor size, load and protocol; saturation",
    isNotFor: "capacity planning: client and server share the machine",
    takes: "4 min",
    isQuick: false,
    run: async (options) => (await import("./serving/overhead-bench.js")).benchOverhead(timed(options)),
  },
  {
    name: "embedder",
    isFor: "sentences in time on the real model: deferred against eager and timeouts",
    isNotFor: "GPUs, where batching gains more; machines that do anything else meanwhile",
    takes: "25 min",
    isQuick: false,
    run: async (options) => (await import("./serving/embedder-bench.js")).benchEmbedder(timed(options)),
  },
  {
    name: "parity",
    isFor: "live against simulated on the same arrivals, emulated accelerators; recorded events replayed",
    isNotFor: "speed; a machine that does anything else meanwhile",
    takes: "7 min",
    isQuick: false,
    run: async (options) => (await import("./serving/parity.js")).benchParity(timed(options)),
  },
  {
    name: "plan",
    isFor: "partitions of 800 models over 20 sub-clusters in 10 s: imbalance against greedy and random search",
    isNotFor: "small problems, which are solved to the optimum at once",
    takes: "7 min",
    isQuick: false,
    run: async (options) => (await import("./plan-bench.js")).benchPlan(options),
  },
  {
    name: "plus",
    isFor:
      "peak goodput of deferred+ beside deferred, the best fixed target, eager and upper bounds, simulated; ablation",
    isNotFor: "speed",
    takes: "15 min",
    isQuick: false,
    run: async (options) => (await import("./plus-bench.js")).benchPlus(options),
  },
  {
    name: "default",
    isFor: "requests in time under the live default, against eager and a timeout tuned for each case, in pairs",
    isNotFor: "machines that do anything else meanwhile",
    takes:
      "1 h live, two quiet cores, goes on where it was ended; --size 0.1 7 min; --simulated 10 min, with --spread 0.3 --size 0.05 10 min",
    isQuick: false,
    run: async (options) => [
      ...(options.part === "live"
        ? []
        : await (await import("./default/simulated-default.js")).benchSimulatedDefault(options)),
      ...(options.part === "simulated"
        ? []
        : await (await import("./default/live-default.js")).benchLiveDefault(options)),
    ],
  },
  {
    name: "apps",
    isFor:
      "requests of two apps of unlike lengths in time on real models: distribution+ by app and by size, sessions by app, the default, eager, " +
      "timeouts; what batches were expected to take and took; --drift: one app's requests double; --profiler: p99 with the online profiler and without",
    isNotFor: "machines that do anything else meanwhile",
    takes:
      "1 h 30 min on two quiet cores, goes on where it was ended; --size 0.1 30 min; --size 0.1 --loads 1.4 7 min; --drift 15 min; --profiler 11 min",
    isQuick: false,
    run: async (options) => (await import("./apps/apps-bench.js")).benchApps(options),
  },
  {
    name: "pipelines",
    isFor:
      "pages in time through the OCR pipeline from half to twice its capacity, where the others are dropped, accelerator time in vain: the " +
      "default, the default and pard with PARD's estimates, drops by a time for each module",
    isNotFor: "machines that do anything else meanwhile",
    takes:
      "35 min on two quiet cores, goes on where it was ended; --size 0.5 --loads 1,1.5,2 11 min; --size 0.05 2 min",
    isQuick: false,
    run: async (options) => (await import("./pipelines/pipelines-bench.js")).benchPipelines(options),
  },
  {
    name: "elastic",
    isFor:
      "utility of real images answered in time with their true label under bursts around capacity, on the elastic model that ships: the default and " +
      "OTAS against every fixed gamma, gamma 0 with dropping, gamma by the queue",
    isNotFor: "machines that do anything else meanwhile",
    takes:
      "a minute for each contender (20), pair (5) and load (4) on two quiet cores, goes on where it was ended; --size 0.2 --loads 1.3 --gammas=-10 10 min",
    isQuick: false,
    run: async (options) => (await import("./elastic/elastic-bench.js")).benchElastic(options),
  },
  {
    name: "autoscale",
    isFor: "workers of a live server that follow load steps 1x, 4x, 0.5x; advice at constant load, simulated",
    isNotFor: "speed; the start of a real model's worker takes longer",
    takes: "4 min",
    isQuick: false,
    run: async (options) => (await import("./autoscale-bench.js")).benchAutoscale(options),
  },
  {
    name: "doors",
    isFor: "what routing, parsing and answering one binary inference cost against bare echoes of the same bytes",
    isNotFor: "capacity, scheduling, large bodies",
    takes: "30 s",
    isQuick: false,
    run: async (options) => (await import("./serving/doors-bench.js")).benchDoors(options),
  },
];

/** Without the keys that were not given. */
function timed({ seconds, ...rest }: BenchOptions): Omit<BenchOptions, "seconds"> & { seconds?: number } {
  return seconds === undefined ? rest : { ...rest, seconds };
}
