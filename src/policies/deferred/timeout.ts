import { fixedTarget, givenUp, microseconds, rateWindow, target } from "./window-options.js";
import { defineWindowPolicy } from "./window-policy.js";

const FRACTION = 0.3;

/** How long the oldest request waits for others, whole µs. */
export function timeoutUs(
  {
    timeout_ms,
    timeout_fraction,
  }: { readonly timeout_ms?: number | undefined; readonly timeout_fraction?: number | undefined },
  sloUs: number,
): number {
  return Math.round(timeout_ms !== undefined ? timeout_ms * 1000 : (timeout_fraction ?? FRACTION) * sloUs);
}

/** A batch leaves when its earliest request has waited a fixed time (Symphony §3.4: exec = max(now, a + k)). */
export const timeoutPolicy = defineWindowPolicy({
  name: "timeout",
  summary: "A batch leaves when it is full or its oldest request has waited the timeout.",
  options: {
    timeout_ms: {
      type: "number",
      min: 0,
      max: 3_600_000,
      meaning: "Milliseconds that the oldest request waits for others. Excludes timeout_fraction.",
    },
    timeout_fraction: {
      type: "number",
      min: 0,
      max: 1,
      meaning:
        `The same wait as a fraction of each model's SLO. Excludes timeout_ms; ${FRACTION} when neither is given. ` +
        "0 is the eager policy.",
    },
    drop: givenUp("Which requests are given up, as for the eager policy."),
    rate_window_s: rateWindow(5),
    target,
  },
  exclusive: [["timeout_ms", "timeout_fraction"]],
  rules: (options, sloUs) => ({
    opens: "timeout",
    timeoutUs: timeoutUs(options, sloUs),
    drop: options.drop,
    idleDispatch: false,
    target: fixedTarget(options.target),
    rateWindowUs: microseconds(options.rate_window_s),
    slackUs: 0,
    isolation: false,
    plus: null,
  }),
});

export const timeout = timeoutPolicy.create;
