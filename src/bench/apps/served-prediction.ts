import { PREDICTION_QUANTILES, type Prediction, predictionAt } from "../../measure/prediction.js";

const BUCKET = /^rubato_batch_prediction_quantile_bucket\{model="([^"]*)",le="([^"]*)"\} (\d+)$/gm;
const RATIO = /^rubato_batch_prediction_ratio_(sum|count)\{model="([^"]*)"\} ([\d.e+-]+)$/gm;

/** From what a server shows at /metrics. @param models that count, together. @returns null where their policies know no distributions. */
export function predictionOfBuckets(text: string, models: ReadonlySet<string>): Prediction | null {
  const atMost = new Map<string, number>();
  for (const [, model, le, count] of text.matchAll(BUCKET))
    if (models.has(model!)) atMost.set(le!, (atMost.get(le!) ?? 0) + Number(count));
  const batches = atMost.get("+Inf") ?? 0;
  if (batches === 0) return null;
  const ratio = { sum: 0, count: 0 };
  for (const [, which, model, value] of text.matchAll(RATIO))
    if (models.has(model!)) ratio[which as "sum" | "count"] += Number(value);
  const shares = PREDICTION_QUANTILES.map((quantile) => [
    String(quantile),
    (atMost.get(String(quantile)) ?? 0) / batches,
  ]);
  return predictionAt(batches, ratio.sum / ratio.count, Object.fromEntries(shares));
}
