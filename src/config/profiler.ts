/** The online profiler in a scenario and in a server's configuration. */
import { z } from "zod";
import { PROFILER_DEFAULTS, type ProfilerOptions } from "../core/shadow/profiler.js";

const { timeShare, requestShare, observations } = PROFILER_DEFAULTS;

export const profilerKeys = z
  .strictObject({
    time_share: z
      .number()
      .min(0)
      .max(0.01)
      .default(timeShare)
      .describe("Most of the accelerators' time that it takes; 0: off."),
    request_share: z
      .number()
      .min(0.001)
      .max(1)
      .default(requestShare)
      .describe("Part of the requests that ran in a batch of several that is considered."),
    observations: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(observations)
      .describe("An app of which so many runs alone were measured in the policy's window_s is asked for no more."),
  })
  .describe(
    "The online profiler (ORLOJ 3.2): some requests are run a second time, alone, on accelerators that nobody wants, so that the " +
      "policy knows what each app takes. Only with policies that learn from it: distribution, distribution+ and auto.",
  );

/** @returns null: it is off. */
export const profilerOptions = (keys: z.output<typeof profilerKeys> | false): ProfilerOptions | null =>
  keys === false || keys.time_share === 0
    ? null
    : { timeShare: keys.time_share, requestShare: keys.request_share, observations: keys.observations };
