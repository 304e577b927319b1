/**
 * Counters and histograms that cost an addition on the hot path: a cell per set of labels, taken once and kept, read
 * when Prometheus asks. prom-client's own look labels up at every observation (200 ns).
 */
import { type Metric, Registry } from "prom-client";

type Labels = Readonly<Record<string, string>>;

interface Sample {
  readonly labels: Labels | Readonly<Record<string, string | number>>;
  readonly value: number;
  readonly metricName?: string;
}

/** Cells that one family may have; beyond it, observations go into one cell that is not shown. */
const CELLS_MAX = 100_000;

abstract class Family<Cell> {
  readonly name: string;
  readonly help: string;
  readonly aggregator = "sum";
  abstract readonly type: string;
  protected readonly cells = new Map<string, { labels: Labels; cell: Cell }>();

  constructor(registry: Registry, name: string, help: string) {
    this.name = name;
    this.help = help;
    registry.registerMetric(this as unknown as Metric);
  }

  protected abstract create(): Cell;
  protected abstract samples(labels: Labels, cell: Cell): Iterable<Sample>;

  /** The cell of these labels; keep it. */
  cell(labels: Labels = {}): Cell {
    const key = JSON.stringify(labels);
    let found = this.cells.get(key);
    if (found === undefined) {
      found = { labels, cell: this.create() };
      if (this.cells.size < CELLS_MAX) this.cells.set(key, found);
    }
    return found.cell;
  }

  async get(): Promise<{ name: string; help: string; type: string; values: Sample[]; aggregator: string }> {
    const values: Sample[] = [];
    for (const { labels, cell } of this.cells.values()) values.push(...this.samples(labels, cell));
    return { name: this.name, help: this.help, type: this.type, values, aggregator: this.aggregator };
  }

  reset(): void {
    this.cells.clear();
  }
}

export interface CounterCell {
  value: number;
}

export class CounterFamily extends Family<CounterCell> {
  readonly type = "counter";
  protected create(): CounterCell {
    return { value: 0 };
  }
  protected *samples(labels: Labels, cell: CounterCell): Iterable<Sample> {
    yield { labels, value: cell.value };
  }
}

/** Read when asked. */
export class GaugeFamily extends Family<() => number> {
  readonly type: string;
  private readonly read: () => Iterable<Sample>;
  constructor(
    registry: Registry,
    name: string,
    help: string,
    read: () => Iterable<Sample>,
    type: "gauge" | "counter" = "gauge",
  ) {
    super(registry, name, help);
    this.read = read;
    this.type = type;
  }
  protected create(): () => number {
    return () => 0;
  }
  protected *samples(): Iterable<Sample> {}
  override async get() {
    return {
      name: this.name,
      help: this.help,
      type: this.type,
      values: [...this.read()],
      aggregator: this.aggregator,
    };
  }
}

export class HistogramCell {
  private readonly bounds: Float64Array;
  /** Observations at or below each bound and above the one before; the last: above all. */
  readonly counts: Float64Array;
  sum = 0;
  count = 0;

  constructor(bounds: Float64Array) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds } = this;
    let low = 0;
    let high = bounds.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (bounds[middle]! < value) low = middle + 1;
      else high = middle;
    }
    this.counts[low] = this.counts[low]! + 1;
    this.sum += value;
    this.count++;
  }
}

export class HistogramFamily extends Family<HistogramCell> {
  readonly type = "histogram";
  private readonly bounds: Float64Array;
  constructor(registry: Registry, name: string, help: string, bounds: readonly number[]) {
    super(registry, name, help);
    this.bounds = Float64Array.from(bounds);
  }
  protected create(): HistogramCell {
    return new HistogramCell(this.bounds);
  }
  protected *samples(labels: Labels, cell: HistogramCell): Iterable<Sample> {
    let cumulative = 0;
    for (let index = 0; index < this.bounds.length; index++) {
      cumulative += cell.counts[index]!;
      yield { labels: { ...labels, le: this.bounds[index]! }, value: cumulative, metricName: `${this.name}_bucket` };
    }
    yield { labels: { ...labels, le: "+Inf" }, value: cell.count, metricName: `${this.name}_bucket` };
    yield { labels, value: cell.sum, metricName: `${this.name}_sum` };
    yield { labels, value: cell.count, metricName: `${this.name}_count` };
  }
}

/** Lines that are written in one turn of the event loop: a few milliseconds, where hundreds of models have 40,000. */
const LINES_PER_TURN = 1000;

/**
 * The registry's text, made between other callers' work. A family's samples are of one moment, families are not. In
 * OpenMetrics prom-client writes `_total` behind the name of each counter's samples, and the family is without it.
 */
export async function metricsText(registry: Registry, format: "prometheus" | "openmetrics"): Promise<string> {
  const isOpen = format === "openmetrics";
  const writer = new Registry();
  if (isOpen) writer.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never);
  const families: string[] = [];
  let lines = 0;
  for (const metric of registry.getMetricsAsArray() as unknown as Family<unknown>[]) {
    const { name, values, ...family } = await metric.get();
    const shown = { ...family, name: isOpen && family.type === "counter" ? name.replace(/_total$/, "") : name };
    const pieces: string[] = [];
    for (let from = 0; from === 0 || from < values.length; from += LINES_PER_TURN) {
      const part = values.slice(from, from + LINES_PER_TURN);
      writer.clear();
      writer.registerMetric({ ...shown, get: async () => ({ ...shown, values: part }) } as unknown as Metric);
      const text = await writer.getSingleMetricAsString(shown.name);
      // Help and type stand before each part, and belong before the first.
      pieces.push(from === 0 ? text : text.split("\n").slice(2).join("\n"));
      lines += part.length;
      if (lines < LINES_PER_TURN) continue;
      lines = 0;
      await new Promise(setImmediate);
    }
    families.push(pieces.join("\n"));
  }
  return isOpen ? `${families.join("\n")}\n# EOF\n` : `${families.join("\n\n")}\n`;
}

export { Registry };
