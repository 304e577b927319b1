import { type Experiment, pick, type Size } from "../experiment.js";
import type { LineRow } from "../figure.js";
import { LV } from "./applications.js";
import { LOST, percent, ratesTable, right } from "./presentation.js";
import { type Case, capacityRps, describeRun, formatPercent, type Measured, measured, planned, runOf } from "./runs.js";
import { PARD, pardAt, SYSTEMS } from "./systems.js";
import type { Trace } from "./traces/rates.js";
import { tracesOf } from "./traces/trace-files.js";

const STRESS = [0.4, 0.6, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.7, 2];
const SLOS_MS = [200, 300, 400, 500, 600];
const LAMBDAS = [0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1];
const WINDOWS_S = [1, 2, 3, 5, 7, 10, 15];
/** Of the least of rate and capacity. */
const GOODPUT = 0.95;
/** "At most a 0.3 % drop rate gap" between lambda 0.1 and the best. */
const GAP = 0.003;

const few = <T>(size: Size, values: readonly T[]): readonly T[] =>
  pick(size, { tiny: values.slice(4, 6), small: values, default: values });

export const fig14: Experiment = {
  name: "pard/fig14",
  title: "PARD, Figure 14: sensitivity",
  about:
    "lv: (a) constant rates up to twice the capacity; (b) SLOs of 200 to 600 ms, batches planned anew; (c) lambda; (d) the window of queueing delays. (b) to (d) under rates as those of the traces, workers by peak, load 1.",
  plan(size, dataDir) {
    const all = tracesOf(dataDir);
    const tweet = all[1];
    const run = runOf(size);
    const stressed = planned(
      few(size, STRESS).map((load): Case => ({ app: LV, trace: null, rule: "mean", load })),
      SYSTEMS,
      run,
    );
    const bySlo = planned(
      few(size, SLOS_MS).map((sloMs): Case => ({ app: { ...LV, sloMs }, trace: tweet, rule: "peak", load: 1 })),
      SYSTEMS,
      run,
    );
    const traces = pick<readonly Trace[]>(size, { tiny: [tweet], small: all, default: all });
    const cases = traces.map((trace): Case => ({ app: LV, trace, rule: "peak", load: 1 }));
    const byLambda = few(size, LAMBDAS).map((lambda) => ({ x: lambda, runs: planned(cases, [pardAt(lambda)], run) }));
    const byWindow = few(size, WINDOWS_S).map((windowS) => ({
      x: windowS,
      runs: planned(cases, [pardAt(0.1, windowS)], run),
    }));
    const capacity = capacityRps(LV, run);
    return {
      points: [...stressed, ...bySlo, ...[...byLambda, ...byWindow].flatMap(({ runs }) => runs)].map(
        ({ point }) => point,
      ),
      scope: describeRun(run, all),
      present(get) {
        const stress = measured(stressed, get);
        const slos = measured(bySlo, get);
        const swept = (each: typeof byLambda) => each.map(({ x, runs }) => ({ x, results: measured(runs, get) }));
        const [lambdas, windows] = [swept(byLambda), swept(byWindow)];
        const bestPart = ({ at, result }: Measured): number =>
          result.goodput_rps.mean / (capacity * Math.min(1, at.load));
        const worstStress = Math.min(...stress.filter(({ system }) => system === PARD).map(bestPart));
        const sweepTable = (title: string, name: string, each: ReturnType<typeof swept>) => ({
          title,
          columns: [right(name), ...traces.map((trace) => right(trace.name))],
          rows: each.map(({ x, results }) => [
            String(x),
            ...results.map(({ result }) => formatPercent(result.drop_rate)),
          ]),
        });
        const sweepRows = (each: ReturnType<typeof swept>): LineRow[] =>
          each.flatMap(({ x, results }) =>
            results.map(({ at, result }) => ({ x, y: result.drop_rate.mean, series: at.trace!.name })),
          );
        const gaps = traces.map((trace, index) => {
          const dropAt = lambdas.map(({ x, results }) => ({ x, y: results[index]!.result.drop_rate.mean }));
          const ours = dropAt.find(({ x }) => x === 0.1) ?? dropAt[0]!;
          const best = dropAt.reduce((a, b) => (b.y < a.y ? b : a));
          return { name: trace.name, gap: ours.y - best.y, best: best.x };
        });
        const worstGap = gaps.reduce((a, b) => (b.gap > a.gap ? b : a));
        return {
          tables: [
            {
              title: `(a) Goodput at constant rates, of the least of rate and capacity (${capacity.toFixed(0)} requests/s), per cent`,
              columns: [right("load"), ...SYSTEMS.map(({ name }) => right(name))],
              rows: few(size, STRESS).map((load) => [
                load.toFixed(1),
                ...stress.filter(({ at }) => at.load === load).map((each) => (100 * bestPart(each)).toFixed(1)),
              ]),
            },
            {
              ...ratesTable("(b) By SLO", slos, SYSTEMS),
              columns: [right("SLO ms"), ...SYSTEMS.map(({ name }) => right(name))],
              rows: few(size, SLOS_MS).map((sloMs) => [
                String(sloMs),
                ...slos.filter(({ at }) => at.app.sloMs === sloMs).map(({ result }) => formatPercent(result.drop_rate)),
              ]),
            },
            sweepTable("(c) PARD's drop rate by lambda", "lambda", lambdas),
            sweepTable("(d) PARD's drop rate by window", "seconds", windows),
          ],
          figures: [
            {
              kind: "lines",
              id: "pard-fig14-stress",
              title: "Goodput at constant rates",
              caption: "lv; both as multiples of the capacity of its workers.",
              x: { title: "rate, of capacity" },
              y: { title: "goodput, of capacity", percent: true },
              series: SYSTEMS.map(({ name }) => ({ name })),
              rows: stress.map(({ at, system, result }) => ({
                x: at.load,
                y: result.goodput_rps.mean / capacity,
                series: system.name,
              })),
            },
            {
              kind: "lines",
              id: "pard-fig14-slo",
              title: "Drop rate by SLO",
              caption: "lv under tweet.",
              x: { title: "SLO", unit: "ms" },
              y: LOST,
              series: SYSTEMS.map(({ name }) => ({ name })),
              rows: slos.map(({ at, system, result }) => ({
                x: at.app.sloMs,
                y: result.drop_rate.mean,
                series: system.name,
              })),
            },
            {
              kind: "lines",
              id: "pard-fig14-lambda",
              title: "PARD's drop rate by lambda",
              caption: "lv.",
              x: { title: "lambda" },
              y: LOST,
              series: traces.map(({ name }) => ({ name })),
              rows: sweepRows(lambdas),
            },
            {
              kind: "lines",
              id: "pard-fig14-window",
              title: "PARD's drop rate by the window of queueing delays",
              caption: "lv.",
              x: { title: "window", unit: "s" },
              y: LOST,
              series: traces.map(({ name }) => ({ name })),
              rows: sweepRows(windows),
            },
          ],
          findings: [
            {
              promise: `at constant rates PARD's goodput is ${100 * GOODPUT} % of the least of rate and capacity and more`,
              found: percent(worstStress),
              holds: worstStress >= GOODPUT,
            },
            {
              promise: `lambda 0.1 drops at most ${100 * GAP} points more than the best lambda`,
              found: `${(100 * worstGap.gap).toFixed(2)} points (${worstGap.name}, best ${worstGap.best})`,
              holds: worstGap.gap <= GAP,
            },
          ],
          notes: [],
        };
      },
    };
  },
};
