/** Options of the policies, as configuration names them; each has the default of its paper or system. */
export interface DeferredOptions {
  /** Dispatch at once while nothing presses. Simulations: false (the paper's rule); the live server: true. */
  readonly idle_dispatch?: boolean;
  /** Drop heads to keep the target batch size. Default true. */
  readonly head_drop?: boolean;
  /** A fixed target batch size; default "auto": from the measured rate. */
  readonly target?: number | "auto";
  /** Window of the rate estimate, seconds. Default 5. */
  readonly rate_window_s?: number;
  /** The window opens and closes this much early, µs. Default 0. */
  readonly timer_slack_us?: number;
}

export interface EagerOptions extends Omit<DeferredOptions, "idle_dispatch" | "head_drop"> {
  /** window: drop heads to keep the target size; infeasible: who cannot finish even alone (default); expired: whose deadline passed. */
  readonly drop?: "window" | "infeasible" | "expired";
}

export interface TimeoutOptions extends EagerOptions {
  /** How long the earliest request of a batch waits, ms; or as a share of the SLO. Exactly one. */
  readonly timeout_ms?: number;
  readonly timeout_fraction?: number;
}
