/** Models whose requests come from two apps of unlike lengths, as the comparison of policies runs them. */
import { type ModelSource, shippedModel } from "../serving/policy-models.js";

export interface AppLoad {
  readonly name: string;
  /** Part of the requests; all have 1 together. */
  readonly share: number;
  /** Lowest and highest length along the padded axis, drawn evenly. */
  readonly lengths: readonly [low: number, high: number];
}

export interface AppsSetting {
  readonly name: "embedder" | "ocr-rec";
  readonly source: ModelSource;
  readonly apps: readonly AppLoad[];
  /** SLO, in times of the longest request alone. */
  readonly sloOverAlone: number;
  /** Distinct requests of an app. */
  readonly samples: number;
}

/** Offered, relative to the measured capacity. */
export const APP_LOADS = [0.6, 0.8, 1, 1.2, 1.4] as const;

export function appsSettings(): AppsSetting[] {
  return [
    {
      name: "embedder",
      source: shippedModel("embedder"),
      // Tokens: queries, and paragraphs.
      apps: [
        { name: "short", share: 0.75, lengths: [4, 24] },
        { name: "long", share: 0.25, lengths: [90, 220] },
      ],
      sloOverAlone: 3,
      samples: 400,
    },
    {
      name: "ocr-rec",
      source: shippedModel("ocr-rec"),
      // Pixels: words, and lines.
      apps: [
        { name: "narrow", share: 0.75, lengths: [40, 160] },
        { name: "wide", share: 0.25, lengths: [480, 900] },
      ],
      sloOverAlone: 3,
      samples: 64,
    },
  ];
}

export const longestOf = ({ apps }: AppsSetting): number => Math.max(...apps.map(({ lengths }) => lengths[1]));
