import { type Experiment, pick } from "../experiment.js";
import { SYMPHONY } from "../systems.js";
import { bestOf, describeRun, formatEstimate, model, peaksOf, RESNET50, runOf } from "./workloads.js";

const SLOS_MS = [20, 25, 50, 100];
/** RDMA: 24 µs at best, 33 µs at the 99.99th percentile; TCP: 3 ms at the median, 12 times that at the 99.99th (Appendix B). */
const RDMA_US = [0, 20, 33, 60, 100];
const TCP_US = [0, 1000, 3000, 6000, 12_000, 24_000, 36_000];
const PANELS = ["RDMA range", "TCP range"] as const;
/** Goodput that the RDMA range may cost: "only marginally reduces". */
const MARGINAL = 0.05;

export const fig14: Experiment = {
  name: "symphony/fig14",
  title: "Figure 14: what network latency costs",
  about:
    "20 equally popular models (Table 2's ResNet50) on 32 accelerators, SLO 20, 25, 50 and 100 ms; the scheduler allows for a " +
    "control delay of so much before each batch, nothing per request. Relative to no delay.",
  plan(size) {
    const run = runOf(size, { seconds: [3, 5, 30], seeds: [2, 5, 10] });
    const slos = pick(size, { tiny: [25], small: [20, 100], default: SLOS_MS });
    const delays = pick(size, {
      tiny: [0, 100, 3000],
      small: [0, 100, 3000, 12_000],
      default: [...new Set([...RDMA_US, ...TCP_US])].sort((a, b) => a - b),
    });
    const cases = slos.flatMap((sloMs) =>
      delays.map((delayUs) => ({
        sloMs,
        delayUs,
        // No request alone can be in time.
        points:
          delayUs / 1000 + RESNET50.alpha_ms + RESNET50.beta_ms >= sloMs
            ? []
            : peaksOf(SYMPHONY, `fig14-slo${sloMs}-${delayUs}us`, run, {
                accelerators: 32,
                network: { control_us: delayUs },
                models: [model({ ...RESNET50, slo_ms: sloMs }, 20)],
                arrivals: { process: "poisson", rate_rps: 20_000 },
              }),
      })),
    );
    return {
      points: cases.flatMap(({ points }) => points),
      scope: describeRun(run),
      present(get) {
        const measured = cases.map((each) => ({
          ...each,
          peak:
            each.points.length === 0 ? { mean: 0, low: null, high: null } : bestOf(each.points, get).result.peak_rps,
        }));
        const baseOf = (sloMs: number): number =>
          measured.find((each) => each.sloMs === sloMs && each.delayUs === 0)!.peak.mean;
        const relative = measured.map((each) => ({ ...each, part: each.peak.mean / baseOf(each.sloMs) }));
        const within = relative.filter(({ delayUs }) => delayUs <= RDMA_US.at(-1)!);
        const worst = within.reduce((a, b) => (b.part < a.part ? b : a));
        return {
          tables: [
            {
              title: "Peak goodput, requests per second",
              columns: [
                { title: "delay µs", align: "right" },
                ...slos.map((sloMs) => ({ title: `SLO ${sloMs} ms`, align: "right" as const })),
              ],
              rows: delays.map((delayUs) => [
                String(delayUs),
                ...slos.map((sloMs) => {
                  const { peak, part } = relative.find((each) => each.sloMs === sloMs && each.delayUs === delayUs)!;
                  return `${formatEstimate(peak)} ${(part * 100).toFixed(0)} %`;
                }),
              ]),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "fig14",
              title: "Goodput by network latency",
              caption:
                "Peak goodput relative to no delay. Paper: marginal within the range of RDMA, up to 70 % lost within that of TCP.",
              panels: PANELS,
              x: { title: "control delay", unit: "ms" },
              y: { title: "peak goodput, relative", percent: true },
              freeX: true,
              series: slos.map((sloMs) => ({ name: `SLO ${sloMs} ms` })),
              rows: relative.flatMap(({ sloMs, delayUs, part }) => {
                const row = { x: delayUs / 1000, y: part, series: `SLO ${sloMs} ms` };
                return [
                  ...(delayUs <= RDMA_US.at(-1)! ? [{ ...row, panel: PANELS[0] }] : []),
                  ...(delayUs === 0 || delayUs >= TCP_US[1]! ? [{ ...row, panel: PANELS[1] }] : []),
                ];
              }),
            },
          ],
          findings: [
            {
              promise: `within the range of RDMA at most ${MARGINAL * 100} % of the goodput is lost at any SLO`,
              found: `${((1 - worst.part) * 100).toFixed(1)} % at SLO ${worst.sloMs} ms, ${worst.delayUs} µs`,
              holds: 1 - worst.part <= MARGINAL,
            },
          ],
          notes: ["No goodput where the delay and one request alone take longer than the SLO."],
        };
      },
    };
  },
};
