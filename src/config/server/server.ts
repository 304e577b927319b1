/** The server's configuration as the rooms read it: defaults, file and command line merged, units in the names. */
import path from "node:path";
import type { NamedPolicy } from "../../core/event-log.js";
import { PROFILER_DEFAULTS, type ProfilerOptions } from "../../core/shadow/profiler.js";
import { type DurationUs, workUsFromMs } from "../../core/time.js";
import { policyNamed } from "../../policies/registry.js";
import { autoscaleOptions } from "../autoscale.js";
import { type AcceleratorGroupSpec, GROUP_AUTO, startCount } from "../model.js";
import { validatePolicyOptions } from "../policy-options.js";
import { profilerOptions } from "../profiler.js";
import { ACCELERATORS_MAX } from "../scenario/scenario-schema.js";
import { IssueList, readSource, type Source, sourceOf } from "../source.js";
import { validate } from "../validate.js";
import {
  ACCELERATORS_PER_GROUP_MAX,
  GROUP_COUNT_MAX,
  type ServerConfigFile,
  serverConfigSchema,
} from "./server-schema.js";

export { serverConfigSchema } from "./server-schema.js";

/** The usual name of the file; `rubato serve` reads it from the working folder when no other is given. */
export const SERVER_CONFIG_NAME = "rubato.config.yaml";

/** How models are placed on groups (Symphony 4.4); docs/placement.md explains it. */
export interface PlacementConfig {
  /** Names of groups that are alike, at least one. */
  readonly groups: readonly string[];
  readonly epochUs: DurationUs;
  /** Models that one epoch may move. */
  readonly movesMax: number;
  /** What is made even: accelerators kept busy, or requests per second. */
  readonly load: "busy" | "requests";
  /** (max - min) / mean over groups up to which nothing is planned; Infinity: no limit. */
  readonly loadImbalanceMax: number;
  readonly memoryImbalanceMax: number;
  /** By how much the objective must fall for each move. */
  readonly gainMin: number;
  /** Bounds of one group; null: none. */
  readonly rateRpsMax: number | null;
  readonly memoryMbMax: number | null;
  readonly memoryWeight: number;
  readonly timeLimitUs: DurationUs;
}

export interface ServerConfig {
  /** Absolute path of the model repository. */
  readonly modelsDir: string;
  readonly modelControl: "none" | "explicit";
  readonly readyWhen: "all_models" | "any_model";
  readonly http: {
    readonly host: string;
    /** 0 = any free port. */
    readonly port: number;
    readonly bodyMaxBytes: number;
    readonly inFlightMax: number;
    readonly inFlightMaxBytes: number;
    readonly connectionsMax: number;
    readonly connectionInFlightMax: number;
    readonly requestTimeoutMs: number;
    readonly writeTimeoutMs: number;
    readonly addressShareMax: number;
    readonly proxies: readonly string[];
    readonly jsonThreads: number;
  };
  /** Null: no gRPC door. */
  readonly grpc: {
    readonly host: string;
    readonly port: number;
    readonly messageMaxBytes: number;
    readonly inFlightMax: number;
    readonly inFlightMaxBytes: number;
    readonly connectionsMax: number;
    /** Null: by the door's own. */
    readonly connectionInFlightMax: number | null;
    readonly connectionInFlightMaxBytes: number | null;
    readonly connectionStreamsMax: number;
    readonly requestTimeoutMs: number;
    readonly writeTimeoutMs: number;
  } | null;
  readonly groups: readonly AcceleratorGroupSpec[];
  /** Null: every model says its group. */
  readonly placement: PlacementConfig | null;
  readonly drainUs: DurationUs;
  readonly retryMax: number;
  readonly workers: {
    /** Execution providers in order of preference. */
    readonly providers: readonly string[];
    /** A batch that runs longer than hangFactor * prediction + hangFloorUs hangs. */
    readonly hangFactor: number;
    readonly hangFloorUs: DurationUs;
    readonly loadTimeoutUs: DurationUs;
    readonly warmUpUs: DurationUs;
    /** Null: no limit. */
    readonly memoryMaxBytes: number | null;
  };
  readonly profile: { readonly budgetUs: DurationUs; readonly refresh: boolean };
  readonly scheduler: {
    readonly idleDispatch: boolean;
    readonly isolation: boolean;
    readonly rateWindowUs: DurationUs;
    /** Queue threads; 0: the scheduler is one. */
    readonly threads: number;
    /** Null: nothing is run again to learn from. */
    readonly profiler: ProfilerOptions | null;
  };
  readonly log: {
    readonly level: "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "silent";
    readonly pretty: boolean | "auto";
  };
  /** Null: no tracing. */
  readonly tracing: { readonly otlpEndpoint: string; readonly sample: number } | null;
  /** Absolute path; null: no event log. */
  readonly eventLog: { readonly file: string; readonly maxBytes: number } | null;
}

/** What `rubato serve` may override; paths are relative to the working folder. */
export interface ServerOverrides {
  readonly models?: string;
  readonly httpPort?: number;
  readonly grpcPort?: number;
  readonly host?: string;
}

/** What the machine decides. */
export interface ServerMachine {
  /** CPUs available to the process. */
  readonly cpus: number;
  /** Folder that relative paths of overrides and, without a file, of defaults start from. */
  readonly folder: string;
}

/**
 * @param file Null: defaults only.
 * @throws ConfigError listing every violation of the file.
 */
export function loadServerConfig(
  file: string | null,
  machine: ServerMachine,
  overrides: ServerOverrides = {},
): ServerConfig {
  const source = file === null ? sourceOf({}, "defaults") : readSource(file);
  const folder = file === null ? machine.folder : path.resolve(machine.folder, path.dirname(file));
  return serverConfigFrom(source, folder, machine, overrides);
}

/** @param folder What relative paths in the file start from. @throws ConfigError */
export function serverConfigFrom(
  source: Source,
  folder: string,
  machine: ServerMachine,
  overrides: ServerOverrides = {},
): ServerConfig {
  const file = validate(serverConfigSchema, source);
  const issues = new IssueList(source);
  const groups = resolveGroups(file, machine.cpus, issues);
  if (file.grpc.enabled && file.http.port !== 0 && file.http.port === file.grpc.port && overlaps(file)) {
    issues.add(["grpc", "port"], `must differ from http.port (${file.http.port}); was ${file.grpc.port}`);
  }
  checkScheduler(file, issues);
  const placement = resolvePlacement(file, groups, issues);
  issues.throwIfAny();
  const { http, grpc, tracing, workers } = file;
  return {
    modelsDir:
      overrides.models === undefined
        ? path.resolve(folder, file.models)
        : path.resolve(machine.folder, overrides.models),
    modelControl: file.model_control,
    readyWhen: file.ready_when,
    http: {
      host: overrides.host ?? http.host,
      port: overrides.httpPort ?? http.port,
      bodyMaxBytes: http.body_max_bytes,
      inFlightMax: http.in_flight_max,
      inFlightMaxBytes: http.in_flight_max_bytes,
      connectionsMax: http.connections_max,
      connectionInFlightMax: http.connection_in_flight_max,
      requestTimeoutMs: Math.round(http.request_timeout_s * 1000),
      writeTimeoutMs: Math.round(http.write_timeout_s * 1000),
      addressShareMax: http.address_share_max,
      proxies: http.proxies,
      jsonThreads: http.json_threads,
    },
    grpc:
      grpc.enabled || overrides.grpcPort !== undefined
        ? {
            host: overrides.host ?? grpc.host,
            port: overrides.grpcPort ?? grpc.port,
            messageMaxBytes: grpc.message_max_bytes,
            inFlightMax: grpc.in_flight_max,
            inFlightMaxBytes: grpc.in_flight_max_bytes,
            connectionsMax: grpc.connections_max,
            connectionInFlightMax: grpc.connection_in_flight_max ?? null,
            connectionInFlightMaxBytes: grpc.connection_in_flight_max_bytes ?? null,
            connectionStreamsMax: grpc.connection_streams_max,
            requestTimeoutMs: Math.round(grpc.request_timeout_s * 1000),
            writeTimeoutMs: Math.round(grpc.write_timeout_s * 1000),
          }
        : null,
    groups,
    placement,
    drainUs: workUsFromMs(file.drain_s * 1000),
    retryMax: file.retry_max,
    workers: {
      providers: workers.providers,
      hangFactor: workers.hang_factor,
      hangFloorUs: workUsFromMs(workers.hang_floor_ms),
      loadTimeoutUs: workUsFromMs(workers.load_timeout_s * 1000),
      warmUpUs: workUsFromMs(workers.warm_up_ms),
      memoryMaxBytes: workers.memory_max_bytes ?? null,
    },
    profile: { budgetUs: workUsFromMs(file.profile.budget_s * 1000), refresh: file.profile.refresh },
    scheduler: {
      idleDispatch: file.scheduler.idle_dispatch,
      isolation: file.scheduler.isolation,
      rateWindowUs: workUsFromMs(file.scheduler.rate_window_s * 1000),
      threads: file.scheduler.threads,
      profiler: resolveProfiler(file.scheduler),
    },
    log: file.log,
    tracing:
      tracing.otlp_endpoint === undefined ? null : { otlpEndpoint: tracing.otlp_endpoint, sample: tracing.sample },
    eventLog:
      file.event_log === undefined
        ? null
        : { file: path.resolve(folder, file.event_log.file), maxBytes: file.event_log.max_bytes },
  };
}

/** What a scheduler on many threads cannot do. */
function checkScheduler({ scheduler, event_log }: ServerConfigFile, issues: IssueList): void {
  const { threads, profiler } = scheduler;
  if (threads === 0) return;
  if (profiler !== undefined && resolveProfiler(scheduler) !== null)
    issues.add(
      ["scheduler", "profiler"],
      `must be false or absent where scheduler.threads is ${threads} (nothing is run again there); was ${JSON.stringify(profiler)}`,
    );
  if (event_log !== undefined)
    issues.add(
      ["event_log"],
      `must be absent where scheduler.threads is ${threads} (its threads see events in no one order); was ${event_log.file}`,
    );
}

/** On by default, where the scheduler is one: it acts only where a policy learns from it. */
function resolveProfiler({ threads, profiler }: ServerConfigFile["scheduler"]): ProfilerOptions | null {
  if (profiler !== undefined) return profilerOptions(profiler);
  return threads === 0 ? PROFILER_DEFAULTS : null;
}

function overlaps({ http, grpc }: ServerConfigFile): boolean {
  const everywhere = (host: string) => host === "0.0.0.0" || host === "::";
  return http.host === grpc.host || everywhere(http.host) || everywhere(grpc.host);
}

/**
 * Shares the CPU threads out: explicit `threads` first, the rest in equal parts to the `auto` workers, at least 1 each.
 * Asking for more than a written budget is an error; `auto` never is, so that defaults start on one CPU.
 */
function resolveGroups(file: ServerConfigFile, cpus: number, issues: IssueList): AcceleratorGroupSpec[] {
  const entries = Object.entries(file.groups);
  if (entries.length === 0 || entries.length > GROUP_COUNT_MAX) {
    issues.add(["groups"], `must name 1 to ${GROUP_COUNT_MAX} groups; was ${entries.length}`);
  }
  let explicitThreads = 0;
  let autoWorkers = 0;
  for (const [name, entry] of entries) {
    const { kind, threads, scales } = entry;
    checkAutoscale(name, entry, issues);
    const most = mostAccelerators(entry);
    if (kind === "onnx" && scales !== undefined) {
      issues.add(["groups", name, "scales"], `goes only with kind emulated; was ${JSON.stringify(scales)} with onnx`);
    }
    if (kind === "emulated" && threads !== "auto") {
      issues.add(["groups", name, "threads"], `goes only with kind onnx; was ${threads} with emulated`);
    }
    if (scales !== undefined && scales.length !== most) {
      const what = entry.autoscale.act ? "autoscale.max" : "count";
      issues.add(["groups", name, "scales"], `must have ${what} (${most}) entries; was ${scales.length}`);
    }
    if (kind === "onnx" && threads === "auto") autoWorkers += most;
    else if (kind === "onnx") explicitThreads += most * (threads as number);
  }
  const budget = file.cpu_threads === "auto" ? cpus : file.cpu_threads;
  if (file.cpu_threads !== "auto" && explicitThreads + autoWorkers > budget) {
    issues.add(
      ["cpu_threads"],
      `must be at least what the onnx groups need (${explicitThreads + autoWorkers}: count * threads); was ${budget}`,
    );
  }
  const autoThreads = autoWorkers === 0 ? 1 : Math.max(1, Math.floor((budget - explicitThreads) / autoWorkers));
  return entries.map(([name, entry]) => {
    const { kind, count, threads, scales, autoscale } = entry;
    const most = mostAccelerators(entry);
    const policy = resolveGroupPolicy(name, entry, file.scheduler.threads, issues);
    return {
      ...(policy === null ? {} : { policy }),
      name,
      kind,
      count: most,
      threads: kind === "emulated" ? 1 : threads === "auto" ? autoThreads : threads,
      scales: scales ?? Array.from({ length: most }, () => 1),
      autoscale: {
        options: autoscaleOptions(autoscale, autoscale.max ?? (autoscale.act ? count : ACCELERATORS_MAX)),
        act: autoscale.act,
        start: count,
        keepWarmUs: workUsFromMs(autoscale.keep_warm_s * 1000),
      },
    };
  });
}

function resolveGroupPolicy(
  group: string,
  { policy: name, policy_options: given }: GroupEntry,
  threads: number,
  issues: IssueList,
): NamedPolicy | null {
  const at = (key: string) => ["groups", group, key];
  if (name === undefined) {
    const [first] = Object.keys(given);
    if (first !== undefined) issues.add(at("policy_options"), `goes only with policy; was ${JSON.stringify(given)}`);
    return null;
  }
  const options = validatePolicyOptions(name, given, at("policy_options"), issues);
  const refusal = policyNamed(name).cannotServe(options);
  if (refusal !== null)
    issues.add(at("policy"), `must be a policy that a server can carry out: ${refusal}; was ${name}`);
  if (threads > 0) issues.add(at("policy"), `must be absent where scheduler.threads is ${threads}; was ${name}`);
  return { name, options };
}

type GroupEntry = ServerConfigFile["groups"][string];

/** Accelerators that the group can ever have. */
function mostAccelerators({ count, autoscale }: GroupEntry): number {
  return autoscale.act ? Math.max(count, autoscale.max ?? count) : count;
}

function checkAutoscale(name: string, { count, autoscale }: GroupEntry, issues: IssueList): void {
  const at = (key: string) => ["groups", name, "autoscale", key];
  const { act, min, max } = autoscale;
  if (max !== undefined && max < min) issues.add(at("max"), `must be at least min (${min}); was ${max}`);
  if (!act) return;
  if (min > count) issues.add(at("min"), `must be at most count (${count}); was ${min}`);
  if (max !== undefined && max < count) issues.add(at("max"), `must be at least count (${count}); was ${max}`);
  if (max !== undefined && max > ACCELERATORS_PER_GROUP_MAX)
    issues.add(at("max"), `must be at most ${ACCELERATORS_PER_GROUP_MAX} with act; was ${max}`);
}

function resolvePlacement(
  { placement, groups: named }: ServerConfigFile,
  groups: readonly AcceleratorGroupSpec[],
  issues: IssueList,
): PlacementConfig | null {
  if (Object.hasOwn(named, GROUP_AUTO))
    issues.add(["groups", GROUP_AUTO], `must have another name: '${GROUP_AUTO}' leaves the group to placement`);
  if (placement === undefined) return null;
  const first = groups.find(({ name }) => name === placement.groups[0]);
  for (const [index, name] of placement.groups.entries()) {
    const at = ["placement", "groups", index];
    const group = groups.find((candidate) => candidate.name === name);
    if (group === undefined)
      issues.add(at, `must be one of ${groups.map((each) => each.name).join(", ")}; was ${JSON.stringify(name)}`);
    else if (placement.groups.indexOf(name) < index) issues.add(at, `must be named once; was ${JSON.stringify(name)}`);
    else if (first !== undefined && likeness(group) !== likeness(first))
      issues.add(at, `must be like ${first.name} (${likeness(first)}); ${name} has ${likeness(group)}`);
  }
  if (placement.rate_rps_max !== undefined && placement.load !== "requests")
    issues.add(
      ["placement", "rate_rps_max"],
      `goes only with load: requests; was ${placement.rate_rps_max} with ${placement.load}`,
    );
  return {
    groups: placement.groups,
    epochUs: workUsFromMs(placement.epoch_s * 1000),
    movesMax: placement.moves_max,
    load: placement.load,
    loadImbalanceMax: placement.load_imbalance_max,
    memoryImbalanceMax: placement.memory_imbalance_max ?? Number.POSITIVE_INFINITY,
    gainMin: placement.gain_min,
    rateRpsMax: placement.rate_rps_max ?? null,
    memoryMbMax: placement.memory_mb_max ?? null,
    memoryWeight: placement.memory_weight,
    timeLimitUs: workUsFromMs(placement.time_limit_s * 1000),
  };
}

const likeness = (group: AcceleratorGroupSpec): string => {
  const { kind, count, threads, scales } = group;
  const start = startCount(group);
  const most = start === count ? "" : ` (at most ${count})`;
  const speeds = scales.every((scale) => scale === 1) ? "" : `, scales ${scales.join(" ")}`;
  return `kind ${kind}, count ${start}${most}, threads ${threads}${speeds}`;
};

/** Kind of the groups of placement; undefined: there are none. */
export const autoKind = ({ placement, groups }: ServerConfig): AcceleratorGroupSpec["kind"] | undefined =>
  groups.find(({ name }) => name === placement?.groups[0])?.kind;
