import {
  fixedTarget,
  idleDispatch,
  isolation,
  microseconds,
  rateWindow,
  target,
  timerSlack,
} from "./window-options.js";
import { defineWindowPolicy } from "./window-policy.js";

/** Symphony: Algorithm 1 and Appendix D. */
export const deferredPolicy = defineWindowPolicy({
  name: "deferred",
  summary: "Symphony's deferred batch scheduling (Algorithm 1): a batch leaves when it can grow no more.",
  options: {
    idle_dispatch: idleDispatch(
      "Dispatch at once while idle accelerators exceed what the present rate needs. false is the paper's rule; " +
        "the live server's own default is true.",
    ),
    isolation,
    head_drop: {
      type: "boolean",
      default: true,
      meaning: "Drop the earliest requests where serving them would keep the batch below its target size.",
    },
    rate_window_s: rateWindow(5),
    target,
    timer_slack_us: timerSlack,
  },
  rules: (options) => ({
    opens: "frontrun",
    timeoutUs: 0,
    drop: options.head_drop ? "window" : "infeasible",
    idleDispatch: options.idle_dispatch,
    target: fixedTarget(options.target),
    rateWindowUs: microseconds(options.rate_window_s),
    slackUs: options.timer_slack_us,
    isolation: options.isolation,
    plus: null,
  }),
});

export const deferred = deferredPolicy.create;
