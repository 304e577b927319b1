/**
 * An elastic transformer as OTAS has it: times anchored at the throughputs that it states, Table II's query types, accuracies in the
 * shape of its Figure 4.
 *
 * Batches of 64: 1500, 1000, 580 and 220 requests/s at gamma -25, -15, 0 and 32 (§II, §III-C). Between them time per request is linear
 * in gamma where tokens are merged; where prompts are added it has the square of the longer sequence. A batch takes 9 ms whatever is in it:
 * 100 requests/s one by one at -15 (§III-C).
 */
export const GAMMAS: readonly number[] = [-25, -20, -15, -10, -5, 0, 2, 4, 8];
export const BATCH_MAX = 64;
const FIXED_US = 9000;

/** @returns µs per request in a batch of 64. */
function requestUs(gamma: number): number {
  const anchors: [number, number][] = [
    [-25, 1500],
    [-15, 1000],
    [0, 580],
  ];
  if (gamma >= 0) return (1e6 / 580) * (1 + 0.038 * gamma + 0.00041 * gamma ** 2);
  const at = anchors.findIndex(([upper]) => gamma <= upper);
  const [[a, rateA], [b, rateB]] = [anchors[Math.max(0, at - 1)]!, anchors[Math.max(1, at)]!];
  return 1e6 / rateA + ((gamma - a) / (b - a)) * (1e6 / rateB - 1e6 / rateA);
}

/** By gamma: µs for each request beyond the fixed time. */
export const REQUEST_US: readonly number[] = GAMMAS.map((gamma) => requestUs(gamma) - FIXED_US / BATCH_MAX);

/** Time of a batch, µs. */
export const batchUs = (size: number, gamma: number): number => Math.ceil(FIXED_US + size * REQUEST_US[gamma]!);

export interface QueryType {
  readonly sloUs: number;
  readonly utility: number;
  /** By gamma. */
  readonly accuracy: readonly number[];
}

const ACCURACY = {
  cifar10: [0.5, 0.8, 0.935, 0.945, 0.948, 0.95, 0.965, 0.97, 0.975],
  cifar100: [0.28, 0.62, 0.775, 0.795, 0.805, 0.81, 0.86, 0.87, 0.88],
  eurosat: [0.5, 0.8, 0.93, 0.945, 0.95, 0.955, 0.97, 0.974, 0.978],
};

/** Table II; the utility of CIFAR100 at 0.6 s is printed blank, 1 makes the sum of the paper. All equally often. */
export const QUERY_TYPES: readonly QueryType[] = [
  { sloUs: 600_000, utility: 0.3, accuracy: ACCURACY.cifar10 },
  { sloUs: 1_000_000, utility: 0.01, accuracy: ACCURACY.cifar10 },
  { sloUs: 600_000, utility: 1, accuracy: ACCURACY.cifar100 },
  { sloUs: 1_000_000, utility: 0.2, accuracy: ACCURACY.cifar100 },
  { sloUs: 600_000, utility: 0.3, accuracy: ACCURACY.eurosat },
  { sloUs: 1_000_000, utility: 0.01, accuracy: ACCURACY.eurosat },
];
