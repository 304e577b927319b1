/** The server's configuration file, `rubato.config.yaml`. Every key has a default: the server needs no file. */
import { z } from "zod";
import { POLICY_NAMES } from "../../policies/registry.js";
import { autoscaleKeys } from "../autoscale.js";
import { profilerKeys } from "../profiler.js";
import { nameSchema } from "../scenario/name.js";
import { ACCELERATORS_MAX } from "../scenario/scenario-schema.js";

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;
const GROUPS_MAX = 256;
const PLACEMENT_MOVES_MAX = 64;
export const ACCELERATORS_PER_GROUP_MAX = 4096;
export const THREADS_MAX = 1024;
/** As many as a threaded scheduler can have (threads/memory). */
const SCHEDULER_THREADS_MAX = 64;

const host = (what: string) =>
  z.string().min(1).max(255).default("127.0.0.1").describe(`Address the ${what} door binds; 0.0.0.0 = all of IPv4.`);
const port = (what: string, standard: number) =>
  z.int().min(0).max(65_535).default(standard).describe(`TCP port of the ${what} door; 0 = any free one.`);

const inFlight = (refusal: string) => ({
  in_flight_max: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(8192)
    .describe(`Inferences in flight through this door; more are refused (${refusal}).`),
  in_flight_max_bytes: z
    .int()
    .min(1024)
    .max(1024 * GIB)
    .default(GIB)
    .describe(`Bytes of their bodies; more are refused (${refusal}). One request is always let in.`),
});

const connectionsMax = z
  .int()
  .min(1)
  .max(1_000_000)
  .default(16_384)
  .describe("Open connections; beyond it a connection is closed as it opens.");

const seconds = (standard: number) => z.number().min(0.01).max(86_400).default(standard);
const timeLimits = (what: string, refusal: string) => ({
  request_timeout_s: seconds(60).describe(`Seconds for ${what} to arrive whole; then ${refusal}.`),
  write_timeout_s: seconds(30).describe("Seconds that a client may take nothing of its answer; then it is reset."),
});

const http = z
  .strictObject({
    host: host("HTTP"),
    port: port("HTTP", 8000),
    body_max_bytes: z
      .int()
      .min(1024)
      .max(2048 * MIB - 1)
      .default(64 * MIB)
      .describe("Larger request bodies are refused (413)."),
    ...inFlight("429"),
    connections_max: connectionsMax,
    connection_in_flight_max: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(256)
      .describe("Inferences in flight on one connection (HTTP pipelining); more are refused (429)."),
    ...timeLimits("a request", "the request is refused (408)"),
    address_share_max: z
      .number()
      .gt(0)
      .max(1)
      .default(0.5)
      .describe(
        "Part of in_flight_max, in_flight_max_bytes and connections_max that one remote address may hold (429); of IPv6 " +
          "a /64 counts as one. Not for addresses in proxies.",
      ),
    proxies: z
      .array(z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()]))
      .max(256)
      .default(["127.0.0.0/8", "::1"])
      .describe(
        "Addresses and networks of reverse proxies and gateways: they speak for many clients, so address_share_max is " +
          "theirs to impose.",
      ),
    json_threads: z
      .int()
      .min(1)
      .max(64)
      .default(2)
      .describe(
        "Threads that parse JSON bodies over 64 KiB, so that they delay nobody; of two or more the first takes none " +
          "over 1 MiB.",
      ),
  })
  .describe("HTTP: Open Inference Protocol, metrics, health.");

const grpc = z
  .strictObject({
    enabled: z.boolean().default(true).describe("false: no gRPC door."),
    host: host("gRPC"),
    port: port("gRPC", 8001),
    message_max_bytes: z
      .int()
      .min(1024)
      .max(2048 * MIB - 1)
      .default(64 * MIB)
      .describe("Larger messages are refused (RESOURCE_EXHAUSTED)."),
    ...inFlight("RESOURCE_EXHAUSTED"),
    connections_max: connectionsMax,
    connection_in_flight_max: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .describe(
        "Inferences in flight on one connection; more are refused (RESOURCE_EXHAUSTED). Default: a quarter of " +
          "in_flight_max, at least 256.",
      ),
    connection_in_flight_max_bytes: z
      .int()
      .min(1024)
      .max(1024 * GIB)
      .optional()
      .describe(
        "Bytes of their messages and answers. Default: a quarter of in_flight_max_bytes, at least two messages of the " +
          "largest size.",
      ),
    connection_streams_max: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(2048)
      .describe("Calls open at once on one connection; further ones wait at the client."),
    ...timeLimits("a message, from its first byte,", "its call ends (DEADLINE_EXCEEDED)"),
  })
  .describe("gRPC: Open Inference Protocol, health, reflection.");

const autoscale = z
  .strictObject({
    act: z
      .boolean()
      .default(false)
      .describe(
        "false: advice only, in metrics and for KEDA; true: workers are started, drained and parked as advised.",
      ),
    ...autoscaleKeys(ACCELERATORS_MAX, `count; without act ${ACCELERATORS_MAX}`),
    keep_warm_s: z
      .number()
      .min(1)
      .max(86_400)
      .default(60)
      .describe("Seconds that a parked worker stays loaded, to be back at once; then its process ends. Only with act."),
  })
  .describe("How many accelerators the group's load needs; docs/autoscaling.md explains it.");

const group = z
  .strictObject({
    kind: z
      .enum(["onnx", "emulated"])
      .default("onnx")
      .describe("onnx: one worker process each, ONNX Runtime on the CPU; emulated: takes as long as a profile says."),
    count: z
      .int()
      .min(1)
      .max(ACCELERATORS_PER_GROUP_MAX)
      .default(1)
      .describe("Accelerators in the group; with autoscale.act those that it starts with."),
    threads: z
      .union([z.literal("auto"), z.int().min(1).max(THREADS_MAX)])
      .default("auto")
      .describe("CPU threads of each onnx worker; auto = an equal part of what cpu_threads leaves, at least 1."),
    scales: z
      .array(z.number().gt(0).max(1000))
      .min(1)
      .max(ACCELERATORS_PER_GROUP_MAX)
      .optional()
      .describe(
        "Relative speed of each emulated accelerator, `count` long (with autoscale.act `max` long): 1 = as profiled, " +
          "5 = five times slower.",
      ),
    policy: z
      .enum(POLICY_NAMES)
      .optional()
      .describe(
        "One policy for all models of the group, which then name none: any policy that the server can carry out, baselines " +
          "too. Absent: each model's own.",
      ),
    policy_options: z.record(z.string(), z.unknown()).default({}).describe("Options of that policy; see there."),
    autoscale: autoscale.prefault({}),
  })
  .describe("Accelerators that hold the same models.");

const placement = z
  .strictObject({
    groups: z
      .array(nameSchema)
      .min(1)
      .max(GROUPS_MAX)
      .describe(
        "Groups that models may be moved between: alike in kind, count, threads and scales, for the programme takes " +
          "sub-clusters as equal.",
      ),
    epoch_s: z
      .number()
      .min(1)
      .max(86_400)
      .default(300)
      .describe("Seconds from one look at the placement to the next; rates are measured over them."),
    moves_max: z
      .int()
      .min(0)
      .max(PLACEMENT_MOVES_MAX)
      .default(4)
      .describe("Models that one epoch may move (the disruption bound C_max, a move counted once); 0: none is moved."),
    load: z
      .enum(["busy", "requests"])
      .default("busy")
      .describe(
        "What is made even over the groups. busy: accelerator time, the measured time per request times the rate; " +
          "requests: requests/s, as in the paper.",
      ),
    load_imbalance_max: z
      .number()
      .min(0)
      .max(1000)
      .default(0.2)
      .describe(
        "(max - min) / mean of the groups' load up to which nothing is planned, if memory_imbalance_max holds as well.",
      ),
    memory_imbalance_max: z
      .number()
      .min(0)
      .max(1000)
      .optional()
      .describe("The same of memory. Default: uneven memory alone moves nothing."),
    gain_min: z
      .number()
      .min(0)
      .max(1000)
      .default(0.02)
      .describe(
        "What a move must bring: the relative deviation of load (plus memory_weight times that of memory) must fall " +
          "by this much for each model moved, or it stays.",
      ),
    rate_rps_max: z
      .number()
      .gt(0)
      .max(1e9)
      .optional()
      .describe("Requests per second that one group may take (R_max); only with load: requests. Default: no bound."),
    memory_mb_max: z
      .number()
      .gt(0)
      .max(1e9)
      .optional()
      .describe(
        "Megabytes that the models of one group may need on each accelerator: all memory_mb and the largest " +
          "dynamic_memory_mb (S_max), kept during moves as well. Default: no bound.",
      ),
    memory_weight: z
      .number()
      .min(0)
      .max(1e6)
      .default(0.1)
      .describe(
        "What a percent of uneven memory is worth, a percent of uneven load being worth 1. Less than in `rubato plan`: " +
          "S_max bounds memory already, and only uneven load makes requests late.",
      ),
    time_limit_s: z
      .number()
      .min(0)
      .max(3600)
      .default(2)
      .describe(
        "Seconds to search for a better plan, on a thread of its own; 0: greedy with swaps alone. The search takes a " +
          "CPU from serving.",
      ),
  })
  .describe(
    "Which group holds which model (Symphony 4.4): models with `group: auto` are placed, and moved as load moves.",
  );

export const serverConfigSchema = z
  .strictObject({
    models: z
      .string()
      .min(1)
      .max(4096)
      .default("models")
      .describe("Folder of the model repository; relative to this file. `--models` overrides it."),
    model_control: z
      .enum(["none", "explicit"])
      .default("none")
      .describe("none: every model is loaded at start; explicit: models are loaded and unloaded by request."),
    ready_when: z
      .enum(["all_models", "any_model"])
      .default("all_models")
      .describe(
        "When health says ready, after the start: all_models: every model to be loaded at start is served; any_model: " +
          "requests are accepted, though some of them failed to load. Models loaded by request do not count.",
      ),
    http: http.prefault({}),
    grpc: grpc.prefault({}),
    groups: z
      .record(nameSchema, group)
      .prefault({
        cpu: { kind: "onnx", count: 1, threads: "auto" },
        emulated: { kind: "emulated", count: 4, threads: "auto" },
      })
      .describe(`Accelerator groups by name, at most ${GROUPS_MAX}; a model's rubato.yaml says which group runs it.`),
    placement: placement.optional(),
    cpu_threads: z
      .union([z.literal("auto"), z.int().min(1).max(THREADS_MAX)])
      .default("auto")
      .describe("CPU threads for all onnx workers together; auto = the CPUs available to the process."),
    drain_s: z
      .number()
      .min(0)
      .max(3600)
      .default(25)
      .describe(
        "Seconds that shutdown takes at most while requests come (Ctrl-C: about one, and what is in flight); a second signal ends at once. The default is within the 30 that Kubernetes gives.",
      ),
    retry_max: z
      .int()
      .min(0)
      .max(5)
      .default(1)
      .describe("Times that a request of a broken batch is run again, alone, if its deadline allows."),
    workers: z
      .strictObject({
        providers: z
          .array(z.string().min(1).max(64))
          .min(1)
          .max(16)
          .default(["cpu"])
          .describe(
            "ONNX Runtime execution providers in order of preference; one that is not installed is passed over.",
          ),
        hang_factor: z
          .number()
          .min(2)
          .max(10_000)
          .default(10)
          .describe(
            "A worker that does nothing and whose batch runs longer than hang_factor * prediction + hang_floor_ms is " +
              "killed and replaced; one that computes has until the deadline or the model's run_max_ms, if that is later.",
          ),
        hang_floor_ms: z.number().min(10).max(3_600_000).default(1000).describe("Milliseconds; see hang_factor."),
        load_timeout_s: z
          .number()
          .gt(0)
          .max(86_400)
          .default(120)
          .describe("Seconds until a model must be loaded and warm on one worker."),
        warm_up_ms: z
          .number()
          .min(0)
          .max(3_600_000)
          .default(500)
          .describe("Milliseconds of runs of growing batch sizes before a worker takes traffic; 0 = none."),
        memory_max_bytes: z
          .int()
          .min(64 * MIB)
          .max(1024 * GIB)
          .optional()
          .describe("Resident memory at which a worker is killed and replaced. Default: no limit."),
      })
      .prefault({})
      .describe("The processes that run models."),
    profile: z
      .strictObject({
        budget_s: z
          .number()
          .gt(0)
          .max(3600)
          .default(5)
          .describe("Seconds to measure one model when it loads; fewer batch sizes and runs if that is short."),
        refresh: z
          .boolean()
          .default(false)
          .describe("true: measure at every load, even if a profile of this machine is kept beside the model."),
      })
      .prefault({})
      .describe("Profiling of models."),
    scheduler: z
      .strictObject({
        idle_dispatch: z
          .boolean()
          .default(true)
          .describe("Dispatch at once while more accelerators are idle than the present rate needs."),
        isolation: z
          .boolean()
          .default(true)
          .describe(
            "No model's batches keep every accelerator of a group from another whose SLO is shorter (docs/serving.md).",
          ),
        rate_window_s: z
          .number()
          .min(0.05)
          .max(3600)
          .default(1)
          .describe("Seconds over which the arrival rate of a model is averaged."),
        threads: z
          .int()
          .min(0)
          .max(SCHEDULER_THREADS_MAX)
          .default(0)
          .describe(
            "Queue threads that the models are shared out over, beside one thread that matches their batches with " +
              "accelerators; 0: the scheduler is one, on the main thread. Costs each request four wake-ups. Not with event_log " +
              "or profiler.",
          ),
        profiler: z
          .union([profilerKeys, z.literal(false)])
          .optional()
          .describe(
            `${profilerKeys.description} false: off. Default: on, where threads is 0; it is of groups of kind onnx.`,
          ),
      })
      .prefault({})
      .describe("The scheduler, and defaults of all models' policies; a model's own policy_options win."),
    log: z
      .strictObject({
        level: z
          .enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"])
          .default("info")
          .describe("Lowest level written, to stderr."),
        pretty: z
          .union([z.literal("auto"), z.boolean()])
          .default("auto")
          .describe("Lines for people instead of JSON; auto = when stderr is a terminal."),
      })
      .prefault({})
      .describe("Structured log."),
    tracing: z
      .strictObject({
        otlp_endpoint: z
          .url({ protocol: /^https?$/, error: "must be an http or https URL" })
          .max(2048)
          .optional()
          .describe("Where spans go, OTLP over HTTP with protobuf (a URL that ends in /v1/traces). None: no tracing."),
        sample: z
          .number()
          .min(0)
          .max(1)
          .default(0.01)
          .describe("Fraction of requests traced that bring no sampling decision of their own (W3C traceparent)."),
      })
      .prefault({})
      .describe("OpenTelemetry spans per stage."),
    event_log: z
      .strictObject({
        file: z.string().min(1).max(4096).describe("Path; relative to this file."),
        max_bytes: z
          .int()
          .min(64 * 1024)
          .max(1024 * GIB)
          .default(GIB)
          .describe("When the file has this size, recording ends and a warning is logged."),
      })
      .optional()
      .describe("Records every event of the scheduler, to be replayed in the simulator. Default: none."),
  })
  .describe("The server: doors, accelerators, limits, logs.");

export type ServerConfigFile = z.output<typeof serverConfigSchema>;
export const GROUP_COUNT_MAX = GROUPS_MAX;
