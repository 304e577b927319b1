/**
 * A whole server in virtual time under faults, all of it drawn from one seed: doors' calls in, workers that are none
 * behind it, and a second count of everything, kept by its clients.
 */
import type { AcceleratorGroupSpec, ModelSpec } from "../../src/config/model.js";
import { parsePipelineFile } from "../../src/config/server/pipelines/pipeline-file.js";
import { durationUs } from "../../src/core/time.js";
import { REFUSALS } from "../../src/serve/endings.js";
import { profileOfEmulated } from "../../src/serve/models/model-profile.js";
import { ModelTimes } from "../../src/serve/models/model-times.js";
import { silentLog } from "../../src/serve/observation/log.js";
import { Server, type ServerOptions } from "../../src/serve/server.js";
import { ProcessPool } from "../../src/serve/workers/process-pool.js";
import { stream, type Uniform } from "../../src/sim/random.js";
import { BUDGET_RULES } from "../../src/system/budget/budget-spec.js";
import { type ErrorDetails, ServingError } from "../../src/wire/serving-error.js";
import { fp32, group, modelSpec } from "../fakes/fake-server.js";
import { type StepFate, VirtualSteps } from "../fakes/virtual-steps.js";
import { NO_FAULTS, type Poison, poisoned, VirtualWorkers, type WorkerFaults } from "../fakes/virtual-workers.js";
import { VirtualClock } from "./virtual-clock.js";

const MS = 1000;

/** How a call ended, as its client saw it. */
export interface Call {
  readonly id: number;
  readonly model: string;
  readonly deadlineAt: number;
  end: "open" | "reply" | "error" | "cancelled" | "refused" | "wrong";
  reason: string;
  /** Of an error. */
  text: string;
  endedAt: number;
  /** Things that its client was told. */
  told: number;
  /** Of an error; empty otherwise. */
  details: ErrorDetails;
}

export class VirtualServer {
  readonly clock: VirtualClock;
  readonly workers: VirtualWorkers;
  readonly server: Server;
  readonly calls: Call[] = [];
  readonly specs: ModelSpec[];
  readonly groups: readonly AcceleratorGroupSpec[];
  readonly pool: ProcessPool;
  /** Its file. */
  readonly pipeline: string;
  broken: unknown = null;
  private readonly stalls: { readonly from: number; readonly to: number }[] = [];
  private readonly faults: WorkerFaults;
  private readonly stallUs: number;
  /** Of traffic and operations. */
  private readonly draw: Uniform;
  /** Requests of apps to a policy that learns what each takes, most with time left: some are run again alone. */
  readonly isProfiled: boolean;
  private readonly drawApp: Uniform;
  private isOpen = true;

  /** @param hasPipeline a pipeline over its models is served, too, and called as they are. @param profiledPart of seeds. */
  constructor(
    readonly seed: number,
    private readonly hasPipeline = false,
    { profiledPart = 0, eventLog = null }: { profiledPart?: number; eventLog?: ServerOptions["eventLog"] } = {},
  ) {
    this.drawApp = stream(seed, "apps");
    this.isProfiled = this.drawApp() < profiledPart;
    const shape = stream(seed, "shape");
    const cost = stream(seed, "cost");
    const late = stream(seed, "late");
    this.draw = stream(seed, "traffic");
    const costUs = shape() < 0.5 ? 5 : 60;
    this.stallUs = shape() < 0.3 ? 400 * MS : 0;
    this.clock = new VirtualClock({
      lateUs: () => Math.floor(late() * MS),
      preciseLateUs: () => Math.floor(late() * 100),
      costUs: () => Math.floor(cost() * costUs),
      readingUs: () => (cost() < 0.2 ? 1 : 0),
    });
    this.groups = drawGroups(shape).map((each) => (this.isProfiled ? { ...each, ...LEARNS } : each));
    const emulated = drawModels(shape, this.groups).map(({ spec, twin }) =>
      this.isProfiled ? { twin, spec: { ...spec, ...LOOSE } } : { twin, spec },
    );
    this.pipeline = drawPipeline(stream(seed, "pipeline"), emulated.length);
    const fate = drawFate(stream(seed, "steps"));
    this.specs = emulated.map(({ spec }) => spec);
    const times = new Map(emulated.map(({ spec, twin }) => [spec.name, new ModelTimes(spec, profileOfEmulated(twin))]));
    this.workers = new VirtualWorkers(this.clock, stream(seed, "workers"), ({ name }, size) =>
      times.get(name)!.us(size, null),
    );
    this.faults = drawFaults(shape, this.isProfiled ? RARE : 1);
    const limits = { respawnMinMs: 10, respawnMaxMs: 500, startTimeoutMs: 300, loadTimeoutMs: 400, hangFloorMs: 100 };
    this.pool = new ProcessPool(this.groups, {
      clock: this.clock,
      workers: this.workers,
      emulatedPerProcess: 1 + Math.floor(shape() * 3),
      cores: 64,
      ...limits,
    });
    this.server = new Server({
      clock: this.clock,
      pool: this.pool,
      log: silentLog(),
      tracer: null,
      slots: shape() < 0.2 ? 24 : 4096,
      retriesMax: Math.floor(shape() * 3),
      eventLog,
      profiler: this.isProfiled ? { timeShare: 0.5, requestShare: 1, observations: 1000 } : null,
      random: stream(seed, "profiler"),
      schedulerMode: "inline",
      modelControl: "explicit",
      shareGroupsMax: 3,
      onBroken: (error) => {
        this.broken = error;
      },
      models: {
        names: () => this.specs.map(({ name }) => name),
        read: (name) => [{ ...this.specs.find((spec) => spec.name === name)! }],
        times: async ({ name }) => times.get(name)!,
      },
      pipelines: {
        pipelines: () => (hasPipeline ? [PIPELINE] : []),
        isPipeline: (name) => hasPipeline && name === PIPELINE,
        readPipeline: () => ({ folder: "", read: parsePipelineFile(this.pipeline, "p/pipeline.yaml") }),
      },
      stepPools: ({ steps: { threads } }, steps) => new VirtualSteps(threads, steps, this.clock, fate),
    });
  }

  /** Starts, and loads every model; faults begin afterwards. */
  async start(): Promise<void> {
    const loaded = this.server
      .start()
      .then(() => Promise.all(this.specs.map(({ name }) => this.server.load(name, {}))))
      .then(() => (this.hasPipeline ? this.server.load(PIPELINE, {}) : undefined));
    await this.until(loaded);
    this.workers.faults = this.faults;
  }

  /** Time passes until it has settled. @throws its error, and what broke the server. */
  async until<T>(promise: Promise<T>, limitUs = 1000_000 * MS): Promise<T> {
    let isOver = false;
    const over = promise.finally(() => {
      isOver = true;
    });
    over.catch(() => {});
    const limitAt = this.clock.now() + limitUs;
    while (!isOver && this.clock.now() < limitAt) await this.pass(10 * MS);
    if (!isOver) throw new Error(`not over after ${limitUs} µs`);
    return over;
  }

  async pass(us: number): Promise<void> {
    await this.clock.run(this.clock.now() + us);
    if (this.broken !== null) throw this.broken;
  }

  /** Clients come and go, and things are done to the server, for so long. */
  traffic(forUs: number): void {
    const { draw, clock } = this;
    const endAt = clock.now() + (this.isProfiled ? LOOKED_AT * forUs : forUs);
    const capacity = this.groups.reduce((sum, { count }) => sum + count, 0);
    const gapUs = ((this.isProfiled ? CALM * 6 : 6) * MS) / capacity / (0.2 + 2.5 * draw());
    const next = (meanUs: number, act: () => void): void => {
      clock.in(Math.ceil(-Math.log(1 - draw()) * meanUs), () => {
        if (clock.now() >= endAt || !this.isOpen) return;
        act();
        next(meanUs, act);
      });
    };
    next(gapUs, () => this.call());
    next((this.isProfiled ? 40 * RARE : 40) * MS, () => this.operate());
  }

  /**
   * Its life: traffic; every third seed stops it in the midst of that, the others when nothing goes wrong any more and all is at rest. What
   * rings after that rings in vain.
   *
   * @param atRest before it stops.
   */
  async live(seed: number, atRest: () => Promise<void> = async () => {}): Promise<void> {
    await this.start();
    this.traffic((150 + (seed % 7) * 60) * MS);
    if (seed % 3 === 0) {
      await this.pass((seed % 200) * MS);
      await this.stop(seed % 400);
    } else {
      await this.pass((this.isProfiled ? 8500 : 700) * MS);
      this.heal();
      await this.until(this.server.idle());
      await atRest();
      await this.stop(1000);
    }
    await this.clock.run(this.clock.now() + 3600_000 * MS);
  }

  /** From now on nothing goes wrong any more. */
  heal(): void {
    this.workers.faults = NO_FAULTS;
  }

  call(changes: { model?: string; timeoutMs?: number; isPlain?: boolean } = {}): Call {
    const { draw, clock, specs } = this;
    const { isPlain = false } = changes;
    const named = specs.find(({ name }) => name === changes.model);
    const spec = named ?? specs[Math.floor(draw() * specs.length)]!;
    const isWhole = this.hasPipeline && changes.model === undefined && draw() < 0.5;
    const model = isWhole ? PIPELINE : spec.name;
    const receivedAt = clock.now();
    const own = isWhole ? PIPELINE_SLO_MS * MS : (spec.sloUs ?? spec.defaultTimeoutUs);
    // From less than a run alone takes to far more than is needed; some are over when they come.
    const timeoutUs =
      changes.timeoutMs !== undefined
        ? changes.timeoutMs * MS
        : draw() < 0.3 || this.isProfiled
          ? null
          : Math.ceil(draw() ** 2 * 300 * MS);
    const call: Call = {
      id: this.calls.length,
      model,
      deadlineAt: receivedAt + (timeoutUs ?? own),
      end: "open",
      reason: "",
      text: "",
      endedAt: -1,
      told: 0,
      details: {},
    };
    this.calls.push(call);
    const poison: Poison =
      isPlain || draw() > (this.isProfiled ? 0.01 / RARE : 0.01)
        ? "none"
        : (["refused", "kills", "hangs"] as const)[call.id % 3]!;
    const rows = isPlain || draw() > 0.1 ? 1 : 2 + Math.floor(draw() * 3);
    const input = fp32("x", rows, poisoned(call.id, poison));
    const over = (end: Call["end"], reason: string): void => {
      call.told++;
      call.end = end;
      call.reason = reason;
      call.endedAt = clock.now();
    };
    try {
      const cancel = this.server.infer(
        {
          model,
          version: "",
          id: "",
          inputs: [input],
          outputs: [],
          receivedAt,
          timeoutUs: timeoutUs === null ? null : durationUs(timeoutUs),
          transportDeadlineAt: null,
          parameters: this.isProfiled ? { app: `app ${Math.floor(3 * this.drawApp())}` } : {},
          traceparent: null,
          byteLength: input.data.byteLength,
        },
        {
          onReply: ({ outputs }) => {
            const isOwn = outputs[0]!.data === input.data || Buffer.compare(outputs[0]!.data, input.data) === 0;
            over("reply", isOwn ? "" : "another's answer");
          },
          onError: (error) => {
            call.details = error.details;
            call.text = error.message;
            over("error", error.details.reason ?? error.code);
          },
        },
      );
      if (!isPlain && draw() < 0.15)
        clock.in(Math.floor(draw() * 60 * MS), () => {
          if (call.end !== "open") return;
          cancel();
          over("cancelled", "");
        });
    } catch (error) {
      const { details, code } = ServingError.from(error);
      over(code === "invalid-argument" && details.module === undefined ? "wrong" : "refused", details.reason ?? code);
    }
    return call;
  }

  private operate(): void {
    const { draw, clock } = this;
    const dice = draw();
    const spec = this.specs[Math.floor(draw() * this.specs.length)]!;
    const ignored = (): void => {};
    if (dice < 0.25) {
      const live = [...this.workers.live];
      live[Math.floor(draw() * live.length)]?.end("signal SIGKILL", false, draw() < 0.5);
    } else if (dice < 0.4) this.server.load(spec.name, {}).catch(ignored);
    else if (dice < 0.55) {
      this.server.unload(spec.name).catch(ignored);
      clock.in(draw() * 40 * MS, () => this.server.load(spec.name, {}).catch(ignored));
    } else if (dice < 0.8) {
      const { name, count } = this.groups[Math.floor(draw() * this.groups.length)]!;
      this.pool.resize(name, 1 + Math.floor(draw() * count));
    } else if (dice < 0.9) this.stall(draw() * this.stallUs);
    else if (this.hasPipeline && dice < 0.95) this.server.load(PIPELINE, {}).catch(ignored);
    else if (this.hasPipeline) {
      this.server.unload(PIPELINE).catch(ignored);
      clock.in(draw() * 40 * MS, () => this.server.load(PIPELINE, {}).catch(ignored));
    }
  }

  private stall(us: number): void {
    const from = this.clock.now();
    this.clock.stall(us);
    this.stalls.push({ from, to: this.clock.now() });
  }

  /** For how long of it the server stood still, µs. */
  stalledBetween(from: number, to: number): number {
    return this.stalls.reduce((sum, each) => sum + Math.max(0, Math.min(to, each.to) - Math.max(from, each.from)), 0);
  }

  /** Ends gracefully, whatever goes on. */
  async stop(drainMs: number): Promise<void> {
    await this.until(
      this.server.stop(drainMs, 20, async () => {
        this.isOpen = false;
      }),
    );
  }

  /** Requests that the metrics count, by outcome and by reason; and calls refused before they were requests. */
  async counted(family = "rubato_requests_total"): Promise<{
    ended: Map<string, number>;
    /** Requests that were run again, by outcome. */
    again: Map<string, number>;
    refused: number;
    batches: number;
    parts: number;
  }> {
    const ended = new Map<string, number>();
    const again = new Map<string, number>();
    let refused = 0;
    let batches = 0;
    let parts = 0;
    const text = await this.server.metrics();
    for (const line of text.split("\n")) {
      const value = Number(line.slice(line.lastIndexOf(" ") + 1));
      if (line.startsWith("rubato_pipeline_parts_total{")) parts += value;
      else if (line.startsWith("rubato_profiler_runs_total{")) {
        const outcome = /outcome="([^"]*)"/.exec(line)![1]!;
        again.set(outcome, (again.get(outcome) ?? 0) + value);
      } else if (line.startsWith("rubato_requests_refused_total{")) refused += value;
      else if (line.startsWith("rubato_batches_ended_total{") && line.includes('outcome="finished"')) batches += value;
      else if (line.startsWith(`${family}{`)) {
        const outcome = /outcome="([^"]*)"/.exec(line)![1]!;
        const reason = /reason="([^"]*)"/.exec(line)![1]!;
        const key = reason === "" ? outcome : `${outcome}: ${reason}`;
        ended.set(key, (ended.get(key) ?? 0) + value);
      }
    }
    return { ended, again, refused, batches, parts };
  }
}

/** A call that was refused before it was a request. */
export const isRefusal = ({ end, reason }: Call): boolean => end === "refused" && reason in REFUSALS;
/** A call that became a request, if only to be dropped at once. */
export const isRequest = (call: Call): boolean => call.end !== "wrong" && !isRefusal(call);

function drawGroups(draw: Uniform): AcceleratorGroupSpec[] {
  const kind = draw() < 0.5 ? "emulated" : "onnx";
  return (draw() < 0.3 ? ["a", "b"] : ["a"]).map((name) => {
    const count = 1 + Math.floor(draw() * 3);
    const scales = Array.from({ length: count }, () => (draw() < 0.3 ? 0.5 + 2 * draw() : 1));
    return group(count, { name, kind, scales });
  });
}

/** What it takes that some of a profiled server's requests are run again. */
const LEARNS = { kind: "onnx", policy: { name: "distribution+", options: {} } } as const;
const LOOSE = { sloUs: durationUs(5000 * MS), queueRequestsMax: 1000, queueBytesMax: 1 << 20 };
/** Times as long traffic, times as long between requests, and between what goes wrong: a run waits until hundreds of requests have ended with time left. */
const LOOKED_AT = 16;
const CALM = 3;
const RARE = 10;

const POLICIES = ["deferred", "eager", "timeout"] as const;

/** Models, and beside each the emulated one whose times it has. */
function drawModels(draw: Uniform, groups: readonly AcceleratorGroupSpec[]): { spec: ModelSpec; twin: ModelSpec }[] {
  const count = 1 + Math.floor(draw() * 4);
  return Array.from({ length: count }, (_, index) => {
    const own = groups[Math.floor(draw() * groups.length)]!;
    const policy = POLICIES[Math.floor(draw() * POLICIES.length)]!;
    const twin = modelSpec({
      name: `m${index}`,
      group: own.name,
      batchSizeMax: 1 + Math.floor(draw() * 8),
      emulated: { alphaMs: 0.2 + 2 * draw(), betaMs: 1 + 8 * draw(), tableMs: null },
      sloUs: draw() < 0.6 ? durationUs(Math.ceil((5 + 80 * draw()) * MS)) : null,
      defaultTimeoutUs: durationUs(2000 * MS),
      policy,
      policyOptions:
        policy === "timeout"
          ? { timeout_ms: 4 }
          : policy === "deferred" && draw() < 0.3
            ? { idle_dispatch: false }
            : {},
      queueRequestsMax: draw() < 0.3 ? 3 + Math.floor(draw() * 10) : 1000,
      queueBytesMax: draw() < 0.2 ? 100 : 1 << 20,
    });
    const isEmulated = own.kind === "emulated";
    return { twin, spec: isEmulated ? twin : { ...twin, platform: "onnx_onnxv1", emulated: null } };
  });
}

export const PIPELINE = "p";
const PIPELINE_SLO_MS = 150;

/** Modules over the models and steps; each passes on what it got. */
function drawPipeline(draw: Uniform, models: number): string {
  const graph = draw();
  const { modules, last } =
    graph < 0.4 ? drawGraph(draw, models) : graph < 0.7 ? drawParts(draw, models) : drawBranch(draw, models);
  return [
    `slo_ms: ${PIPELINE_SLO_MS}`,
    `budget: ${BUDGET_RULES[Math.floor(draw() * BUDGET_RULES.length)]}`,
    `queue: { requests_max: ${draw() < 0.3 ? 3 : 1000}, bytes_max: ${draw() < 0.3 ? 60 : 1_000_000}, parts_max: ${draw() < 0.3 ? 2 : 100} }`,
    `steps: { threads: ${1 + Math.floor(draw() * 2)}, queue_max: ${draw() < 0.3 ? 2 : 1000}, timeout_ms: 20 }`,
    "modules:",
    ...modules.map((module, id) => `  - { id: ${id}, name: s${id}, ${module} }`),
    `outputs: { y: { module: s${last}, tensor: y } }`,
    "",
  ].join("\n");
}

interface DrawnModules {
  readonly modules: readonly string[];
  readonly last: number;
}

/** Some of which meet again. */
function drawGraph(draw: Uniform, models: number): DrawnModules {
  const count = 1 + Math.floor(draw() * 5);
  const soft: boolean[] = [];
  const modules = Array.from({ length: count }, (_, id) => {
    const pres = new Set(id === 0 ? [] : [Math.floor(draw() * id), Math.floor(draw() * id)]);
    const [pre] = pres;
    soft.push(id < count - 1 && draw() < 0.2);
    const from = pre === undefined || soft[pre] ? "" : `module: s${pre}, `;
    const tensor = from === "" ? "x" : "y";
    return `${drawRun(draw, models)}, pres: [${[...pres]}], soft: ${soft[id]}, inputs: { x: { ${from}tensor: ${tensor} } }`;
  });
  return { modules, last: count - 1 };
}

/** Each row of the request by itself, put together again. */
function drawParts(draw: Uniform, models: number): DrawnModules {
  const from = (module: number): string => `inputs: { x: { module: s${module}, tensor: y } }`;
  const run = (): string => drawRun(draw, models);
  return {
    modules: [
      `${run()}, inputs: { x: { tensor: x } }`,
      `${run()}, pres: [0], fan_out: { module: s0, tensors: [y] }, ${from(0)}`,
      `${run()}, pres: [1], ${from(1)}`,
      `${run()}, pres: [2], join: true, ${from(2)}`,
    ],
    last: 3,
  };
}

/** One of two ways by the value of the request, in parts or as a whole; what is soft may be missing there. */
function drawBranch(draw: Uniform, models: number): DrawnModules {
  const run = (): string => drawRun(draw, models);
  const inParts = draw() < 0.5;
  const parts = inParts ? ", fan_out: { tensors: [x] }" : "";
  const soft = draw() < 0.3 ? ", soft: true, defaults: { y: { shape: [1, 1], value: 0 } }" : "";
  const own = "{ module: s0, tensor: y }";
  return {
    modules: [
      `${run()}${parts}, subs: [1, 2], inputs: { x: { tensor: x } }, branch: { tensor: y, above: ${Math.floor(200 * draw())} }`,
      `${run()}, pres: [0], inputs: { x: ${own} }`,
      `${run()}, pres: [0]${soft}, inputs: { x: ${own} }`,
      `${run()}, pres: [1, 2], inputs: { x: [{ module: s1, tensor: y }, ${own}] }`,
      `${run()}, pres: [3]${inParts ? ", join: true" : ""}, inputs: { x: { module: s3, tensor: y } }`,
    ],
    last: 4,
  };
}

const STEP = "{ datatype: FP32, shape: [-1, 1] }";

/** A model, or a step. */
const drawRun = (draw: Uniform, models: number): string =>
  draw() < 0.3
    ? `step: ./s.mjs, time_ms: ${1 + Math.floor(4 * draw())}, takes: { x: ${STEP} }, gives: { y: ${STEP} }`
    : `model: m${Math.floor(draw() * models)}`;

/** What becomes of most runs of steps, and of few. */
function drawFate(draw: Uniform): () => StepFate {
  const often = draw() < 0.5 ? 0 : 0.05;
  return () => {
    const dice = draw();
    return dice > 3 * often ? "ends" : dice > 2 * often ? "throws" : dice > often ? "dies" : "hangs";
  };
}

/** Most seeds have some faults; each has its own mix. */
function drawFaults(draw: Uniform, rarer: number): WorkerFaults {
  const faults = { ...NO_FAULTS };
  const often = 0.2 * draw() ** 2;
  for (const name of Object.keys(faults) as (keyof WorkerFaults)[]) if (draw() < 0.4) faults[name] = often / rarer;
  faults.lateFactor = 2 + 30 * draw();
  // Rarer than a batch: a worker that dies in one of five runs serves nobody.
  for (const name of ["diesRunning", "hangs", "late"] as const) faults[name] /= 4;
  return faults;
}
