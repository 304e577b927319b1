import { expect, test } from "vitest";
import { CounterFamily, GaugeFamily, HistogramFamily, metricsText, Registry } from "./typed-metrics.js";

test("metrics: OpenMetrics names the counter's family without _total, its samples with; the plain text stays", async () => {
  const registry = new Registry();
  new CounterFamily(registry, "seen_total", "Seen.").cell({ reason: "a" }).value = 3;
  new GaugeFamily(registry, "busy_seconds_total", "Busy.", () => [{ labels: {}, value: 2 }], "counter");
  new HistogramFamily(registry, "took_seconds", "Took.", [1]).cell().observe(0.5);
  const plain = await registry.metrics();
  expect(await metricsText(registry, "openmetrics")).toBe(
    [
      "# HELP seen Seen.",
      "# TYPE seen counter",
      'seen_total{reason="a"} 3',
      "# HELP busy_seconds Busy.",
      "# TYPE busy_seconds counter",
      "busy_seconds_total 2",
      "# HELP took_seconds Took.",
      "# TYPE took_seconds histogram",
      'took_seconds_bucket{le="1"} 1',
      'took_seconds_bucket{le="+Inf"} 1',
      "took_seconds_sum 0.5",
      "took_seconds_count 1",
      "# EOF",
      "",
    ].join("\n"),
  );
  expect(plain).toContain('seen_total{reason="a"} 3');
  expect(await metricsText(registry, "prometheus")).toBe(plain);
});

test("metrics: the text of many cells is prom-client's, and others have turns while it is made", async () => {
  const registry = new Registry();
  const took = new HistogramFamily(registry, "took_seconds", "Took.\nIn two lines.", [1, 2, 3]);
  const seen = new CounterFamily(registry, "seen_total", "Seen.");
  new GaugeFamily(registry, "none", "None.", () => []);
  for (let model = 0; model < 2000; model++) {
    took.cell({ model: `m${model}` }).observe(model % 4);
    seen.cell({ model: `m${model}` }).value = model;
  }
  let turns = 0;
  const count = (): void => {
    turns++;
    timer = setImmediate(count);
  };
  let timer = setImmediate(count);
  const text = await metricsText(registry, "prometheus");
  clearImmediate(timer);
  // 14,000 lines.
  expect(turns).toBeGreaterThanOrEqual(13);
  expect(text).toBe(await registry.metrics());
});
