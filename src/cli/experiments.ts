/** What the experiment commands need of the rooms `sim` and `report`; loaded when a command runs, not at start. */
import type { ExpandedScenario } from "../config/expand-scenario.js";
import type { PolicyOptions } from "../config/policy-options.js";
import type { PeakGoodputView, ReportView } from "./report-view.js";

export interface SimulateOptions {
  readonly policy?: string;
  readonly policyOptions?: PolicyOptions;
  readonly seed: number;
}

export interface PeakGoodputOptions {
  readonly policy?: string;
  readonly policyOptions?: PolicyOptions;
  readonly seeds: number;
  /** Called after every simulated rate. */
  readonly onProgress?: (step: { readonly rateRps: number; readonly badRate: number }) => void;
}

interface SimulateModule {
  simulate(scenario: ExpandedScenario, options: SimulateOptions): ReportView;
}
interface GoodputModule {
  peakGoodput(scenario: ExpandedScenario, options: PeakGoodputOptions): PeakGoodputView | Promise<PeakGoodputView>;
}

const load = async <M>(file: string): Promise<M> => (await import(file)) as M;

export const loadSimulate = () => load<SimulateModule>("../sim/simulate.js");
export const loadPeakGoodput = () => load<GoodputModule>("../report/goodput.js");
