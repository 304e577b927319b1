/** Faults as events in order of time: every pause becomes two events, and each must make sense after the one before. */
import { type TimeUs, timeUs } from "../../core/time.js";
import type { IssueList } from "../source.js";
import type { ScenarioFault } from "./scenario-schema.js";

export interface ExpandedFault {
  readonly at: TimeUs;
  /**
   * fail: its batch is lost and it runs nothing until `recover`. leave: it ends its batch and goes. join: it comes
   * (back). slow: executions that start from now on take `factor` times as long.
   */
  readonly kind: "fail" | "recover" | "leave" | "join" | "slow";
  readonly accelerator: number;
  /** 1 except with slow. */
  readonly factor: number;
}

const UNDONE_BY = { fail: "recover", leave: "join", slow: "slow" } as const;
/** What an accelerator must be for an event to make sense, and what it is afterwards. */
const TRANSITIONS: Readonly<Record<string, { from: readonly State[]; to: State | null }>> = {
  fail: { from: ["up"], to: "failed" },
  recover: { from: ["failed"], to: "up" },
  leave: { from: ["up", "failed"], to: "gone" },
  join: { from: ["gone"], to: "up" },
  slow: { from: ["up", "failed"], to: null },
};
type State = "up" | "failed" | "gone";

export interface ExpandedFaults {
  readonly events: readonly ExpandedFault[];
  /** Accelerators whose first event is a join: absent from the start. */
  readonly absent: ReadonlySet<number>;
}

export function expandFaults(
  faults: readonly ScenarioFault[],
  accelerators: number,
  issues: IssueList,
): ExpandedFaults {
  const events: (ExpandedFault & { readonly index: number; readonly order: number })[] = [];
  faults.forEach((fault, index) => {
    const { kind, accelerator } = fault;
    if (accelerator >= accelerators) return; // already an issue of checkScenario
    const at = timeUs(Math.round(fault.at_s * 1e6));
    events.push({ at, kind, accelerator, factor: fault.factor ?? 1, index, order: 2 * index });
    if (fault.for_s !== undefined && kind in UNDONE_BY) {
      const undoneBy = UNDONE_BY[kind as keyof typeof UNDONE_BY];
      const until = timeUs(Math.round((fault.at_s + fault.for_s) * 1e6));
      events.push({ at: until, kind: undoneBy, accelerator, factor: 1, index, order: 2 * index + 1 });
    }
  });
  events.sort((a, b) => a.at - b.at || a.order - b.order);

  const absent = new Set<number>();
  const states = new Map<number, State>();
  for (const event of events) {
    let state = states.get(event.accelerator);
    if (state === undefined) {
      state = event.kind === "join" ? "gone" : "up";
      if (event.kind === "join") absent.add(event.accelerator);
    }
    const transition = TRANSITIONS[event.kind]!;
    if (!transition.from.includes(state)) {
      issues.add(
        ["faults", event.index, "kind"],
        `${event.kind} at ${event.at / 1e6} s must find accelerator ${event.accelerator} ${transition.from.join(" or ")}; was ${state}`,
      );
    }
    states.set(event.accelerator, transition.to ?? state);
  }
  return { events: events.map(({ at, kind, accelerator, factor }) => ({ at, kind, accelerator, factor })), absent };
}
