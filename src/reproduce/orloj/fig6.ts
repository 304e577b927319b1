/** Figure 6 and the toy example of §4.2.2: two kinds of one mean, a batch of two with c0 = 0, c1 k = 1. The paper draws no numbers. */
import { Distribution } from "../../core/times/distribution.js";
import { Longest } from "../../core/times/longest.js";
import { Score } from "../../policies/distribution/score.js";
import type { Experiment } from "../experiment.js";
import type { LineRow } from "../figure.js";

/** µs; bins between, of which those without weight are gaps. Mean 10. */
const EDGES = [4, 6, 9, 11, 14, 16];
/** "Higher probability of finishing exactly at l". */
const STEADY = Distribution.of(EDGES, [0.1, 0, 0.8, 0, 0.1]);
/** "May either finish very early, or very late". */
const EITHER = Distribution.of(EDGES, [0.5, 0, 0, 0, 0.5]);

/** Of a batch of one of each (Eq. 8 and 9). */
export const TOY_BATCH = new Longest([
  { times: STEADY, count: 1 },
  { times: EITHER, count: 1 },
]).distribution();
export const TOY_SCORE = new Score(TOY_BATCH, 0.2);
/** r1, r2, r3 enter one after another, with an SLO of 30. */
export const TOY_DEADLINES = [30, 33, 36] as const;
const ENTERED = TOY_DEADLINES.map((deadline) => deadline - 30);
/** T, T' and later, with the pair that the paper's text has at each. */
export const TOY_MOMENTS = [
  { at: 10, pair: [1, 2] },
  { at: 19, pair: [1, 3] },
  { at: 27, pair: [2, 3] },
] as const;

export const toyScore = (request: number, at: number): number =>
  at < ENTERED[request - 1]! ? 0 : TOY_SCORE.valueAt(TOY_DEADLINES[request - 1]! - at);

/** The two of the highest scores, ascending. */
export const toyPair = (at: number): number[] =>
  [1, 2, 3]
    .toSorted((a, b) => toyScore(b, at) - toyScore(a, at))
    .slice(0, 2)
    .sort((a, b) => a - b);

const nameOf = (request: number): string => `r${request}`;
const pairName = (pair: readonly number[]): string => pair.map(nameOf).join(", ");
const UNTIL = 36;
const STEP = 0.5;
const BINS = EDGES.slice(1).map((edge, index) => [EDGES[index]!, edge] as const);
const shareOf = (times: Distribution, [from, to]: readonly [number, number]): number => times.cdf(to) - times.cdf(from);
const KINDS = [
  { name: "first", times: STEADY },
  { name: "second", times: EITHER },
  { name: "batch of both", times: TOY_BATCH },
] as const;

export const fig6: Experiment = {
  name: "orloj/fig6",
  title: "ORLOJ, Figure 6: a toy example",
  about:
    "Two kinds of requests of one mean, the one steady, the other early or late; a batch of one of each; scores of three requests that enter " +
    "one after another. Worked, not simulated. The paper draws no numbers: ours are its shapes.",
  plan: () => ({
    points: [],
    scope: "exact",
    present: () => ({
      tables: [
        {
          title: "Time alone and of a batch: probability by bin",
          columns: [{ title: "time" }, ...KINDS.map(({ name }) => ({ title: name, align: "right" as const }))],
          rows: [
            ...BINS.map((bin) => [
              `${bin[0]} to ${bin[1]}`,
              ...KINDS.map(({ times }) => shareOf(times, bin).toFixed(2)),
            ]),
            ["mean", ...KINDS.map(({ times }) => times.mean.toFixed(3))],
          ],
        },
        {
          title: "Scores, of which the two highest go",
          columns: [
            { title: "moment", align: "right" },
            ...[1, 2, 3].map((request) => ({ title: nameOf(request), align: "right" as const })),
            { title: "go" },
          ],
          rows: TOY_MOMENTS.map(({ at }) => [
            String(at),
            ...[1, 2, 3].map((request) => toyScore(request, at).toFixed(4)),
            pairName(toyPair(at)),
          ]),
        },
      ],
      figures: [
        {
          kind: "bars",
          id: "orloj-fig6-times",
          title: "Time alone and of a batch",
          caption:
            "Probability by bin (Figures 6a and 6b). Both kinds take 10 in the mean; the batch is skewed to the right.",
          y: { title: "probability", domain: [0, 1] },
          groups: BINS.map(([from, to]) => `${from} to ${to}`),
          series: KINDS.map(({ name }) => ({ name })),
          rows: BINS.flatMap((bin) =>
            KINDS.map(({ name, times }) => ({ group: `${bin[0]} to ${bin[1]}`, series: name, y: shareOf(times, bin) })),
          ),
        },
        {
          kind: "lines",
          id: "orloj-fig6",
          title: "Scores as time passes",
          caption: `Figure 6c: scores of three requests with deadlines ${TOY_DEADLINES.join(", ")}. At ${TOY_MOMENTS.map(({ at, pair }) => `${at} ${pairName(pair)}`).join(", at ")} are the highest.`,
          x: { title: "time" },
          y: { title: "score" },
          series: [1, 2, 3].map((request) => ({ name: nameOf(request) })),
          rows: [1, 2, 3].flatMap((request) =>
            Array.from({ length: UNTIL / STEP + 1 }, (_, index): LineRow => {
              const at = index * STEP;
              return { x: at, y: toyScore(request, at), series: nameOf(request) };
            }).filter(({ x }) => x >= ENTERED[request - 1]!),
          ),
        },
      ],
      findings: TOY_MOMENTS.map(({ at, pair }) => {
        const found = toyPair(at);
        return {
          promise: `at ${at} go ${pairName(pair)}`,
          found: pairName(found),
          holds: pairName(found) === pairName(pair),
        };
      }),
      notes: [
        "c0 = 0 and c1 k = 1, as in the paper: a batch takes what its longest member does. b is 0.2 of the unit of time.",
      ],
    }),
  }),
};
