import type { LiveScheduler, LiveSchedulerOptions, SchedulerDeployment, SchedulerEvents } from "../live-scheduler.js";
import { InlineScheduler } from "./inline-scheduler.js";
import { ThreadsClient } from "./threads-client.js";

export function createLiveScheduler(
  deployment: SchedulerDeployment,
  options: LiveSchedulerOptions,
  events: SchedulerEvents,
): LiveScheduler {
  return deployment === "inline"
    ? new InlineScheduler(options, events)
    : new ThreadsClient({ ...options, threads: deployment.threads }, events);
}
