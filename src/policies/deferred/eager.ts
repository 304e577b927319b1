import { fixedTarget, givenUp, microseconds, rateWindow, target } from "./window-options.js";
import { defineWindowPolicy } from "./window-policy.js";

/** A batch leaves as soon as an accelerator is free (Symphony §3.4 with k = 0). */
export const eagerPolicy = defineWindowPolicy({
  name: "eager",
  summary: "A batch leaves as soon as an accelerator is free.",
  options: {
    drop: givenUp(
      "Which requests are given up: `infeasible` those that cannot finish even alone, `window` also those that " +
        "keep the batch below its target size, `expired` only those whose deadline has passed.",
    ),
    rate_window_s: rateWindow(5),
    target,
  },
  rules: (options) => ({
    opens: "eager",
    timeoutUs: 0,
    drop: options.drop,
    idleDispatch: false,
    target: fixedTarget(options.target),
    rateWindowUs: microseconds(options.rate_window_s),
    slackUs: 0,
    isolation: false,
    plus: null,
  }),
});

export const eager = eagerPolicy.create;
