import type { LiveScheduler, LiveSchedulerOptions, SchedulerDeployment, SchedulerEvents } from "./live-scheduler.js";
import { SchedulerClient } from "./scheduler-client.js";
import { ThreadsClient } from "./threads-client.js";

export function createLiveScheduler(
  deployment: SchedulerDeployment,
  options: LiveSchedulerOptions,
  events: SchedulerEvents,
): LiveScheduler {
  return typeof deployment === "string"
    ? new SchedulerClient({ ...options, mode: deployment }, events)
    : new ThreadsClient({ ...options, threads: deployment.threads }, events);
}
