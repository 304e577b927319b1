/**
 * Numbers that others published or that their code gives: what figures show beside ours.
 *
 * Paper: Chen et al., "Symphony: Optimized DNN Model Serving using Deferred Batch Scheduling". Public code: its repository
 * (abcdabcd987/nexuslb), scheduler alone, built and run on two cores; ranges of several runs of 30 s. Both have Shepherd as the
 * same re-implementation, which asks the newest request for expiry.
 */
export interface Range {
  readonly low: number;
  readonly high: number;
}

export const TABLE_2 = {
  paper: {
    ResNet50: { Symphony: 5264, Clockwork: 1358, Nexus: 4027, "Shepherd, as published": 4445 },
    InceptionResNetV2: { Symphony: 926, Clockwork: 458, Nexus: 618, "Shepherd, as published": 778 },
  },
  /** Analysis in the table: throughput of staggered execution and of accelerators on their own. */
  staggered: { ResNet50: 5839, InceptionResNetV2: 1083 },
  uncoordinated: { ResNet50: 4501, InceptionResNetV2: 713 },
  code: {
    ResNet50: {
      Symphony: { low: 5237, high: 5288 },
      Nexus: { low: 4000, high: 4062 },
      "Shepherd, as published": { low: 4453, high: 4469 },
    },
    InceptionResNetV2: {
      Symphony: { low: 935, high: 950 },
      Nexus: { low: 631, high: 634 },
      "Shepherd, as published": { low: 781, high: 785 },
    },
  },
} as const;

/** Figure 1, the text of §2.2: median batch sizes. */
export const FIGURE_1_MEDIANS = {
  ResNet50: { Clockwork: 1, Nexus: 6, "Shepherd, as published": 9, Symphony: 14 },
  InceptionResNetV2: { Clockwork: 1, Nexus: 2, "Shepherd, as published": 4, Symphony: 8 },
} as const;

/** Public code on the zoos, 64 accelerators; and the paper's ratios of Symphony to its best baseline (§5.1). */
export const FIGURE_9 = {
  code: {
    a100: {
      all: {
        Symphony: { low: 16_500, high: 17_000 },
        Eager: { low: 14_000, high: 14_250 },
        "Shepherd, as published": { low: 7400, high: 7800 },
      },
      strong: { Symphony: { low: 55_000, high: 56_000 } },
      weak: { Symphony: { low: 6250, high: 6500 } },
    },
    "1080ti": {
      all: { Symphony: { low: 7000, high: 7250 } },
      strong: { Symphony: { low: 19_500, high: 20_000 } },
      weak: {},
    },
  } as Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, Range>>>>>>,
  ratio: { a100: { all: 2, strong: 5.7, weak: 1.1 }, "1080ti": { all: 2, strong: 3.5, weak: 1.23 } } as Readonly<
    Record<string, Readonly<Record<string, number>>>
  >,
};

/** Accelerators for 15k r/s: the public code; the paper prints ratios (§5.2): Nexus 166 % and Shepherd 90 % more on the mix. */
export const FIGURE_10 = {
  code: { ResNet50: { Symphony: 6, "Shepherd, as published": 8 }, mix: { Symphony: 60 } },
} as const;

/** Figure 11's setting on the public code: 20 models, SLO 25 ms, 32 accelerators. */
export const FIGURE_11_CODE = {
  "equal, Poisson": {
    Symphony: { low: 19_200, high: 19_400 },
    Eager: { low: 17_100, high: 17_400 },
    "Shepherd, as published": { low: 7300, high: 7750 },
  },
  "equal, bursty": { Symphony: { low: 16_100, high: 16_400 } },
  "Zipf 0.9, Poisson": { Symphony: { low: 18_750, high: 18_970 } },
} as Readonly<Record<string, Readonly<Record<string, Range>>>>;

/** Public code, ResNet50 on 8 accelerators: offered to good requests per second. */
export const FLAT_TOP_CODE = [
  [800, 791],
  [2600, 2602],
  [5250, 5186],
  [6000, 5602],
  [8000, 5771],
  [12_000, 5837],
] as const;

export const middle = ({ low, high }: Range): number => (low + high) / 2;
