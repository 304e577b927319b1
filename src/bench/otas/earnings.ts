/** What do OTAS, its parts and what is put in their place earn on one accelerator? */

import { mean, tInterval95 } from "../../measure/statistics.js";
import { Frontier } from "../../policies/otas/allocation/frontier.js";
import { TokenAdaptation } from "../../policies/otas/allocation/token-adaptation.js";
import { limitsByTable } from "../../policies/otas/planners/rate-limits.js";
import { GAMMAS } from "../../reproduce/otas/vision-transformer.js";
import type { BenchResult } from "../bench-result.js";
import { digestOf } from "../digest.js";
import { EarliestFirst } from "./earliest-first.js";
import { bursts, type ElasticLoad, elasticLoad, synthetic } from "./elastic-load.js";
import { ElasticProfile } from "./elastic-profile.js";
import { type Contender, type Earned, serve } from "./one-accelerator.js";
import { BATCHES_MAX, OtasContender, type OtasSetting } from "./otas-contender.js";
import { RegroupedContender, type RegroupedSetting } from "./regrouped-contender.js";

const SEEDS = [1, 2, 3, 4, 5];
const SECONDS = 120;
const STATES_MAX = 10_000;
const DEMAND_US = 500_000;
const LOADS = [
  { name: "synthetic", rates: synthetic, scale: 1 },
  { name: "synthetic", rates: synthetic, scale: 1.5 },
  { name: "bursts", rates: bursts, scale: 1 },
  { name: "bursts", rates: bursts, scale: 1.5 },
];

const PROFILE = new ElasticProfile(GAMMAS);
/** Up to what each gamma does per second. */
const THROUGHPUT = PROFILE.costUs().map((costUs) => 1e6 / costUs);

const algorithm2 = new TokenAdaptation(BATCHES_MAX, GAMMAS.length);
const frontier = new Frontier(BATCHES_MAX, GAMMAS.length, STATES_MAX);
const OTAS: OtasSetting = { allocator: algorithm2, few: 5, likeUtility: 0.8, rateMax: limitsByTable(GAMMAS) };
const OURS: RegroupedSetting = { allocator: frontier, share: 0.6, demandUs: DEMAND_US, isPriced: true };

const otas = (change: Partial<OtasSetting>) => (load: ElasticLoad) =>
  new OtasContender(load, PROFILE, { ...OTAS, ...change });
const regrouped = (change: Partial<RegroupedSetting>) => (load: ElasticLoad) =>
  new RegroupedContender(load, PROFILE, { ...OURS, ...change });

const earliest = (gammaFor: (waiting: number) => number) => (load: ElasticLoad) =>
  new EarliestFirst(load, PROFILE, gammaFor);
/** 8, 0 and -15 by how many wait: up to one full batch at 8, up to three. */
const byQueue = (waiting: number): number => GAMMAS.indexOf(waiting <= 64 ? 8 : waiting <= 192 ? 0 : -15);

/** The first is compared with. */
const CONTENDERS: readonly [name: string, create: (load: ElasticLoad) => Contender][] = [
  ["otas", otas({})],
  ["gamma by the queue", earliest(byQueue)],
  ["otas, f by throughput", otas({ rateMax: THROUGHPUT })],
  ["Algorithm 2 alone", otas({ few: -1 })],
  ["frontier alone", otas({ few: -1, allocator: frontier })],
  ["Algorithm 2 alone, priced", otas({ few: -1, priceOver: DEMAND_US })],
  ["frontier alone, priced", otas({ few: -1, allocator: frontier, priceOver: DEMAND_US })],
  ["frontier alone, mu 0.15", otas({ few: -1, allocator: frontier, likeUtility: 0.15 })],
  ["frontier alone, mu 0.15, priced", otas({ few: -1, allocator: frontier, likeUtility: 0.15, priceOver: DEMAND_US })],
  ["regrouped, all together", regrouped({ share: 1 })],
  ["regrouped, not priced", regrouped({ isPriced: false })],
  ["regrouped, Algorithm 2", regrouped({ allocator: algorithm2 })],
  ["regrouped", regrouped({})],
];

/** @param size Relative to 120 s by five seeds. */
export function earnings(size: number, onProgress: (text: string) => void): BenchResult[] {
  const seconds = Math.max(3, Math.round(SECONDS * size));
  return LOADS.flatMap(({ name, rates, scale }) => {
    const loads = SEEDS.map((seed) => elasticLoad(rates, seed, seconds, scale));
    const base = loads.map((load) => serve(load, PROFILE, CONTENDERS[0]![1](load)));
    onProgress(`${name} x ${scale}: ${loads.map(({ count }) => Math.round(count / seconds)).join(", ")} requests/s\n`);
    const earnedBy = (create: (load: ElasticLoad) => Contender): Earned[] =>
      loads.map((load) => serve(load, PROFILE, create(load)));
    const fixed = GAMMAS.map((_, gamma) => earnedBy(earliest(() => gamma)));
    const best = fixed.reduce((most, each) => (sharesOf(each) > sharesOf(most) ? each : most));
    const called = `otas ${name} x ${scale}`;
    return [
      resultOf(`${called}, best fixed gamma`, best, base, `gamma ${GAMMAS[fixed.indexOf(best)]}; `),
      ...CONTENDERS.map(([contender, create]) => resultOf(`${called}, ${contender}`, earnedBy(create), base)),
    ];
  });
}

const sharesOf = (earned: readonly Earned[]): number => mean(earned.map(({ share }) => share));

function resultOf(name: string, earned: readonly Earned[], base: readonly Earned[], note = ""): BenchResult {
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
  const over = earned.map(({ share }, seed) => share / base[seed]!.share - 1);
  const [share, gain, inTime, right] = [
    tInterval95(earned.map((each) => each.share)),
    tInterval95(over),
    tInterval95(earned.map((each) => each.inTime)),
    tInterval95(earned.map((each) => each.right)),
  ];
  return {
    name,
    value: 100 * share.mean,
    unit: "% of the ceiling",
    detail:
      `${note}over otas ${percent(gain.mean)} [${percent(gain.low)}, ${percent(gain.high)}], least ${percent(Math.min(...over))}; in time ` +
      `${percent(inTime.mean)}, and right ${percent(right.mean)}; batches of ${mean(earned.map(({ batchSize }) => batchSize)).toFixed(1)}`,
    digest: digestOf(earned.map((each) => each.share.toFixed(9))),
    figures: { over_otas: gain.mean, over_otas_low: gain.low, in_time: inTime.mean, right: right.mean },
  };
}
