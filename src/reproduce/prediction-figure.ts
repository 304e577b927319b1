import type { Prediction } from "../measure/prediction.js";
import type { Figure, LineRow } from "./figure.js";

const SOUND = "sound";

/** How often batches took at most each quantile of what they were expected to: on the diagonal where distributions are sound. */
export function predictionFigure(title: string, of: Readonly<Record<string, Prediction>>): Figure {
  const rows: LineRow[] = Object.entries(of).flatMap(([series, { at_most }]) =>
    Object.entries(at_most).map(([quantile, share]) => ({ x: Number(quantile), y: share, series })),
  );
  const covered = Object.entries(of).map(
    ([name, { batches, within_90 }]) => `${name}: ${(100 * within_90).toFixed(1)} % of ${batches} batches`,
  );
  return {
    id: "prediction",
    title,
    caption:
      "Share of batches that took at most a quantile of what they were expected to take, by who was in them; on the diagonal " +
      `where distributions are sound. Within the interval from 5 to 95 %: ${covered.join("; ")}.`,
    kind: "lines",
    x: { title: "quantile of the expected time", percent: true, domain: [0, 1] },
    y: { title: "batches that took at most that", percent: true, domain: [0, 1] },
    series: [...Object.keys(of).map((name) => ({ name })), { name: SOUND, kind: "published" }],
    publishedAs: "line",
    rows: [...rows, { x: 0, y: 0, series: SOUND }, { x: 1, y: 1, series: SOUND }],
  };
}
