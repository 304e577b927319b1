/**
 * Finish rates that ORLOJ's authors print: Yu, Qiu, Jin, Chowdhury, "ORLOJ: Predictably Serving Unpredictable DNNs",
 * Tables 2 to 5 of Appendix A. There is no public code. Figures 13 and 14 are drawn without numbers.
 */

/** Multiples of the P99 of the time alone. */
export const SLOS = [1.5, 2, 3, 4, 5] as const;
export const COMPARED = ["Clipper", "Nexus", "Clockwork", "ORLOJ"] as const;

/** By case ID: a row for each of SLOS, a number for each of COMPARED. */
type PublishedTable = Readonly<Record<string, readonly (readonly [number, number, number, number])[]>>;

/** Two modes; the ID has the standard deviations of both, or of the short and of the long one. */
export const TABLE_2 = {
  "std-0.5": [
    [0.01, 0.01, 0.44, 0.57],
    [0.01, 0.02, 0.53, 0.76],
    [0.04, 0.05, 0.62, 0.96],
    [0.11, 0.13, 0.61, 0.99],
    [0.2, 0.25, 0.57, 1],
  ],
  "std-1": [
    [0.02, 0.02, 0.46, 0.6],
    [0.03, 0.03, 0.53, 0.76],
    [0.1, 0.1, 0.55, 0.97],
    [0.21, 0.19, 0.53, 0.99],
    [0.33, 0.34, 0.56, 1],
  ],
  "std-2": [
    [0.04, 0.03, 0.43, 0.59],
    [0.07, 0.05, 0.51, 0.73],
    [0.19, 0.13, 0.55, 0.97],
    [0.34, 0.3, 0.5, 1],
    [0.49, 0.54, 0.59, 1],
  ],
  "std-2/0.5": [
    [0.16, 0.18, 0.52, 0.75],
    [0.28, 0.32, 0.59, 0.83],
    [0.61, 0.68, 0.6, 0.98],
    [0.89, 0.93, 0.59, 0.96],
    [0.97, 1, 0.63, 1],
  ],
  "std-0.5/2": [
    [0.01, 0.01, 0.38, 0.4],
    [0.01, 0.02, 0.5, 0.61],
    [0.04, 0.04, 0.57, 0.9],
    [0.08, 0.09, 0.66, 0.97],
    [0.15, 0.17, 0.52, 0.99],
  ],
} as const satisfies PublishedTable;

export const TABLE_3 = {
  "one-modal": [
    [0.03, 0.04, 0.48, 0.46],
    [0.1, 0.13, 0.55, 0.74],
    [0.45, 0.54, 0.61, 0.98],
    [0.73, 0.8, 0.58, 1],
    [0.82, 0.91, 0.6, 1],
  ],
  "two-modal": [
    [0.01, 0.03, 0.45, 0.6],
    [0.04, 0.03, 0.58, 0.75],
    [0.13, 0.14, 0.51, 0.97],
    [0.27, 0.3, 0.56, 1],
    [0.37, 0.44, 0.55, 1],
  ],
  "three-modal": [
    [0.03, 0.04, 0.45, 0.59],
    [0.05, 0.05, 0.55, 0.68],
    [0.1, 0.09, 0.61, 0.97],
    [0.18, 0.23, 0.6, 0.99],
    [0.35, 0.42, 0.61, 0.99],
  ],
  "four-modal": [
    [0.03, 0.05, 0.46, 0.59],
    [0.05, 0.07, 0.56, 0.73],
    [0.08, 0.12, 0.59, 0.94],
    [0.1, 0.16, 0.6, 0.98],
    [0.14, 0.19, 0.6, 1],
  ],
  "five-modal": [
    [0.02, 0.03, 0.47, 0.6],
    [0.02, 0.03, 0.55, 0.73],
    [0.03, 0.07, 0.59, 0.94],
    [0.04, 0.08, 0.57, 0.97],
    [0.07, 0.08, 0.56, 0.99],
  ],
  "six-modal": [
    [0.04, 0.04, 0.46, 0.58],
    [0.03, 0.05, 0.53, 0.71],
    [0.06, 0.08, 0.53, 0.92],
    [0.07, 0.09, 0.51, 0.97],
    [0.08, 0.11, 0.54, 0.99],
  ],
  "seven-modal": [
    [0.03, 0.05, 0.43, 0.59],
    [0.04, 0.05, 0.51, 0.73],
    [0.08, 0.09, 0.54, 0.93],
    [0.1, 0.12, 0.52, 0.98],
    [0.12, 0.15, 0.54, 0.99],
  ],
  "eight-modal": [
    [0.03, 0.04, 0.33, 0.6],
    [0.05, 0.06, 0.49, 0.74],
    [0.08, 0.09, 0.43, 0.93],
    [0.09, 0.13, 0.52, 0.97],
    [0.11, 0.14, 0.5, 0.99],
  ],
} as const satisfies PublishedTable;

/** Static models. */
export const TABLE_4 = {
  "inception-imagenet": [
    [0.01, 0.01, 0.16, 0.41],
    [0.31, 0.3, 0.58, 0.48],
    [0.86, 0.88, 0.84, 0.84],
    [0.96, 0.97, 0.82, 0.99],
    [0.98, 0.98, 0.83, 0.99],
  ],
  "resnet-imagenet": [
    [0.01, 0, 0.3, 0.42],
    [0.15, 0.15, 0.59, 0.48],
    [0.62, 0.64, 0.77, 0.85],
    [0.89, 0.91, 0.88, 0.98],
    [0.95, 0.96, 0.87, 0.99],
  ],
} as const satisfies PublishedTable;

/** Real tasks: model, data set. */
export const TABLE_5 = {
  "blenderbot-convAI": [
    [0.05, 0.06, 0.43, 0.45],
    [0.18, 0.21, 0.61, 0.65],
    [0.56, 0.63, 0.64, 0.74],
    [0.71, 0.81, 0.65, 0.81],
    [0.75, 0.87, 0.65, 0.81],
  ],
  "blenderbot-cornell": [
    [0.06, 0.06, 0.43, 0.44],
    [0.2, 0.2, 0.6, 0.68],
    [0.54, 0.57, 0.62, 0.75],
    [0.71, 0.74, 0.64, 0.81],
    [0.74, 0.77, 0.64, 0.82],
  ],
  "gpt-convAI": [
    [0.39, 0.38, 0.39, 0.36],
    [0.79, 0.83, 0.57, 0.64],
    [0.91, 0.99, 0.61, 0.86],
    [0.92, 1, 0.63, 0.97],
    [0.92, 1, 0.61, 0.98],
  ],
  "gpt-cornell": [
    [0.45, 0.44, 0.46, 0.44],
    [0.84, 0.86, 0.65, 0.68],
    [0.94, 1, 0.73, 0.97],
    [0.94, 1, 0.73, 0.99],
    [0.95, 1, 0.74, 1],
  ],
  "bart-cnn": [
    [0.12, 0.11, 0.44, 0.46],
    [0.36, 0.36, 0.46, 0.71],
    [0.73, 0.73, 0.46, 0.97],
    [0.78, 0.79, 0.44, 0.99],
    [0.8, 0.81, 0.44, 1],
  ],
  "t5-cnn": [
    [0.48, 0.46, 0.47, 0.49],
    [0.86, 0.84, 0.5, 0.74],
    [0.99, 1, 0.5, 1],
    [0.99, 1, 0.52, 1],
    [0.99, 1, 0.51, 1],
  ],
  "fsmt-wmt": [
    [0.04, 0.04, 0.45, 0.45],
    [0.21, 0.23, 0.5, 0.59],
    [0.63, 0.65, 0.51, 0.88],
    [0.73, 0.76, 0.53, 0.93],
    [0.75, 0.79, 0.54, 0.95],
  ],
  "mbart-wmt": [
    [0.07, 0.1, 0.38, 0.47],
    [0.28, 0.3, 0.36, 0.59],
    [0.71, 0.73, 0.35, 0.91],
    [0.76, 0.78, 0.36, 0.96],
    [0.78, 0.8, 0.35, 0.98],
  ],
  "rdinet-cifar": [
    [0.61, 0.61, 0.48, 0.49],
    [0.98, 0.99, 0.47, 0.84],
    [0.99, 1, 0.48, 1],
    [0.99, 1, 0.48, 1],
    [0.99, 1, 0.48, 1],
  ],
  "skipnet-imagenet": [
    [0, 0, 0.05, 0.24],
    [0, 0.03, 0.14, 0.62],
    [0, 0.12, 0.21, 0.92],
    [0, 0.31, 0.12, 0.95],
    [0, 0.48, 0.16, 0.89],
  ],
} as const satisfies PublishedTable;

const CASES: PublishedTable = { ...TABLE_2, ...TABLE_3, ...TABLE_4, ...TABLE_5 };

/** @param slo one of SLOS. @returns undefined where the paper has no such case, SLO or system. */
export function publishedRate(caseId: string, slo: number, system: string): number | undefined {
  return CASES[caseId]?.[(SLOS as readonly number[]).indexOf(slo)]?.[(COMPARED as readonly string[]).indexOf(system)];
}

/** Means and 99th percentiles of the time alone, ms (Table 1), in the order of Table 5. */
export const TABLE_1 = {
  "blenderbot-convAI": { meanMs: 200.39, p99Ms: 242.27 },
  "blenderbot-cornell": { meanMs: 203.22, p99Ms: 247.04 },
  "gpt-convAI": { meanMs: 79.47, p99Ms: 143.4 },
  "gpt-cornell": { meanMs: 94.84, p99Ms: 161.69 },
  "bart-cnn": { meanMs: 774.66, p99Ms: 1101.99 },
  "t5-cnn": { meanMs: 552.91, p99Ms: 797.28 },
  "fsmt-wmt": { meanMs: 189.3, p99Ms: 319.31 },
  "mbart-wmt": { meanMs: 432.38, p99Ms: 729.87 },
  "rdinet-cifar": { meanMs: 683.15, p99Ms: 2667.54 },
  "skipnet-imagenet": { meanMs: 3.24, p99Ms: 5.56 },
} as const satisfies Readonly<Record<keyof typeof TABLE_5, { readonly meanMs: number; readonly p99Ms: number }>>;
