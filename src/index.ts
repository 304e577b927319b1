/**
 * Rubato as a library: put a deadline-aware batcher around any async function, simulate, generate load.
 *
 * `createScheduler` runs in your process; `simulate` and `loadScenario` run a scenario in virtual time with the same
 * scheduler; `runLoad` sends open-loop load to any server of the Open Inference Protocol.
 */
export { ConfigError } from "./config/config-error.js";
export { type ExpandedScenario, loadScenario, parseScenario, withRate } from "./config/scenario/scenario.js";
export { DeadlineQueue } from "./core/deadline-queue.js";
export {
  type GivenBatch,
  type LatencyModel,
  linearTable,
  measuredTable,
  ProfiledLatency,
} from "./core/latency/latency.js";
export {
  CLOSE_ACCELERATOR_FREE,
  CLOSE_EAGER,
  CLOSE_FULL,
  CLOSE_IDLE,
  CLOSE_RETRY,
  CLOSE_TIMEOUT,
  CLOSE_WINDOW,
  DROP_EXPIRED,
  DROP_INFEASIBLE,
  DROP_PREDICTED_LATE,
  DROP_QUEUE_FULL,
} from "./core/outcome.js";
export type { Arbiter, CoreView, KindTimes, Policy, Queue, QueueKey, QueueSpec, QueueView } from "./core/policy.js";
export type { CommandSink, SchedulerOptions } from "./core/scheduler.js";
export { Scheduler } from "./core/scheduler.js";
export type { AcceleratorId } from "./core/tables/accelerator-table.js";
export type { BatchId } from "./core/tables/batch-table.js";
export type { RequestHandle } from "./core/tables/request-table.js";
export type { LoadOptions } from "./load/load-options.js";
export { runLoad } from "./load/run-load.js";
export type { Answers, VariantUse } from "./measure/answers.js";
export { Histogram } from "./measure/histogram.js";
export { combineReports, conservation, type Report } from "./measure/report.js";
export { PullArbiter } from "./policies/baselines/servers/pull-arbiter.js";
export { BatchTimes } from "./policies/batch-times.js";
export { RankArbiter } from "./policies/deferred/rank-arbiter.js";
export { definePolicy } from "./policies/descriptor.js";
export { dropReason } from "./policies/drop-reason.js";
export {
  type AllocationProblem,
  type Allocator,
  NOT_EXECUTED,
  plannedUtility,
} from "./policies/elastic/allocation/allocation.js";
export { Frontier } from "./policies/elastic/allocation/frontier.js";
export { TokenAdaptation } from "./policies/elastic/allocation/token-adaptation.js";
export { ElasticQueue, type ElasticQueueOptions } from "./policies/elastic/elastic-queue.js";
export { ElasticTimes } from "./policies/elastic/elastic-times.js";
export { type BatchLine, FixedWork, type WorkPlanner } from "./policies/elastic/planners/work-planner.js";
export { linkFront } from "./policies/link-members.js";
export { otas } from "./policies/otas/otas.js";
export {
  clipper,
  clockwork,
  createPolicy,
  deferred,
  eager,
  nexus,
  POLICY_NAMES,
  shepherd,
  tfserving,
  timeout,
  triton,
} from "./policies/registry.js";
export { Retries } from "./policies/retries.js";
export { WaitingRequests } from "./policies/waiting-requests.js";
export type { ScaleAdvice, ScaleOptions, ScaleSample } from "./scaling/advisor.js";
export { SCALE_DEFAULTS, ScaleAdvisor } from "./scaling/advisor.js";
export { type Batcher, type BatcherOptions, createScheduler, type SubmitOptions } from "./serve/create-scheduler.js";
export type { SimulatedEvent } from "./sim/event-lines.js";
export { simulate } from "./sim/simulate.js";
export { WorkerHost } from "./threads/hosts.js";
export { createMemory } from "./threads/memory.js";
export type { ThreadedModel } from "./threads/model-queues.js";
export type { DispatchedBatch } from "./threads/queues/dispatched-batch.js";
export { replayRun } from "./threads/replay/replay.js";
export type { RunOptions, RunRecord } from "./threads/run-record.js";
export { ThreadedScheduler, type ThreadedSink } from "./threads/threaded-scheduler.js";
export { ServingError } from "./wire/serving-error.js";
