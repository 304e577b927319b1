/** What the live server's queues are told of how sure an elastic model is: from answers to the gamma of the next batch, recorded and replayed. */
import { expect, test } from "vitest";
import type { ElasticSpec } from "../../src/config/elastic.js";
import { type LogGroup, replay } from "../../src/core/event-log.js";
import { LOG_ACCURACY, LOG_WIDTH } from "../../src/core/event-rows.js";
import type { Variant } from "../../src/core/latency/elastic.js";
import { linearTable } from "../../src/core/latency/latency.js";
import { NO_DELAYS } from "../../src/core/scheduler.js";
import { PLAIN } from "../../src/core/tables/request-table.js";
import { LIVE_DEFAULTS, liveSpec, liveWindow } from "../../src/policies/live.js";
import { groupPolicy } from "../../src/policies/registry.js";
import type { ServedQueue } from "../../src/serve/models/served-model.js";
import { LiveAccuracy } from "../../src/serve/models/tasks/live-accuracy.js";
import { TaskTable } from "../../src/serve/models/tasks/task-table.js";
import { SchedulerLoop } from "../../src/serve/scheduling/scheduler-loop.js";
import { Draws } from "../../src/sim/draws.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";

const GAMMAS = [-4, 0, 4];
const ACCURACY = [0.6, 0.8, 0.9];
const SECOND = 1_000_000;
const SLO_US = 100_000;

/** A queue of a model with one task on one accelerator, and its batches' gammas. */
class Run {
  readonly rows: number[] = [];
  readonly gammas: number[] = [];
  readonly accuracies: ServedQueue["model"]["cells"]["elastic"]["accuracies"] = [];
  private readonly tasks: TaskTable;
  private readonly kind: number;
  private readonly queue: ServedQueue;
  private readonly accuracy: LiveAccuracy;
  private readonly loop: SchedulerLoop;
  private readonly draws = new Draws(1, "confidence");
  private drawn = 0;
  private at = 0;

  constructor(
    readonly group: LogGroup,
    policyOptions: Readonly<Record<string, unknown>>,
    confidence: string | null,
  ) {
    this.tasks = new TaskTable("m", { gammas: GAMMAS, gamma: 0, confidence } as unknown as ElasticSpec);
    this.kind = this.tasks.add({ name: "t", version: 1, utility: 1, sloUs: null, accuracy: ACCURACY } as never);
    this.tasks.serve(this.kind);
    this.queue = { id: 0, model: { tasks: this.tasks, cells: { elastic: this } } } as unknown as ServedQueue;
    this.loop = new SchedulerLoop(
      [group],
      100,
      {
        dispatched: ({ variant, batch, execAt, execUs }) => {
          this.gammas.push(GAMMAS[variant - 1]!);
          this.loop.finished(0, batch, execAt, execAt + execUs);
        },
        ended: () => {},
        predicted: () => {},
      },
      { row: (...row) => void this.rows.push(...row) },
    );
    this.accuracy = new LiveAccuracy(this.loop);
    const variant = (gamma: number): Variant => ({
      name: String(gamma),
      gamma,
      family: 0,
      execUs: linearTable(1000 + 50 * gamma, 1000, 4),
      loadUs: 0,
      runMb: 0,
    });
    this.loop.addQueue({
      group: 0,
      queue: 0,
      sloUs: SLO_US,
      lengthMax: 100,
      window: liveWindow("auto", policyOptions, SLO_US, LIVE_DEFAULTS),
      timesUs: Array.from(linearTable(1000, 1000, 4).subarray(1, 5)),
      elastic: { variants: GAMMAS.map(variant), plain: 1, accuracy: this.tasks.accuracies },
    });
    this.loop.join(0, 0, 1);
    this.loop.turn(0);
  }

  /** Answers of half a minute, of batches at every gamma. @param means how sure the model is, by gamma. */
  answers(means: readonly number[]): this {
    for (const until = this.at + 30 * SECOND; this.at < until; this.at += SECOND / 50)
      means.forEach((mean, index) => {
        const sure = this.draws.uniform(this.drawn++) ** ((1 - mean) / mean);
        this.accuracy.answered(
          this.queue,
          index + 1,
          [this.kind],
          [[tensor("logits", 0), tensor("confidence", sure)]],
          this.at,
        );
      });
    this.loop.turn(this.at);
    return this;
  }

  /** @returns the gamma of a request that finds all idle. */
  gammaOfNext(): number {
    this.loop.arrive(0, 0, this.at, this.at + SLO_US, { ...PLAIN, kind: this.kind });
    this.loop.turn(this.at);
    this.at += SECOND;
    this.loop.turn(this.at);
    return this.gammas.at(-1)!;
  }

  get told(): number {
    return this.rows.filter((kind, at) => at % LOG_WIDTH === 0 && kind === LOG_ACCURACY).length;
  }
}

const tensor = (name: string, value: number): Tensor => ({
  name,
  datatype: "FP32",
  shape: [1],
  data: new Uint8Array(Float32Array.of(value).buffer),
});
const group = (policy?: LogGroup["policy"]): LogGroup => ({
  name: "g",
  network: NO_DELAYS,
  acceleratorsMax: 1,
  requestsMax: 100,
  retriesMax: 1,
  learn: true,
  ...(policy === undefined ? {} : { policy }),
});
const OTAS: LogGroup["policy"] = { name: "otas+", options: { accuracy: "recent" } };

test.each([
  ["auto", group(), { accuracy: "recent" }],
  ["otas+", group(OTAS), {}],
])(
  "%s: a gamma at which the model became unsure is not chosen any more; it is recorded, replays and is shown",
  (_, of, options) => {
    const run = new Run(of, options, "confidence");
    expect(run.answers(ACCURACY).gammaOfNext()).toBe(4);
    expect(run.answers([0.6, 0.8, 0.4]).gammaOfNext()).toBe(0);
    expect(run.told).toBeGreaterThan(1);
    expect(run.told).toBeLessThan(62);
    const shown = run.accuracies.find(({ gamma }) => gamma === 4)!;
    expect(shown.task).toBe("t");
    expect(Math.abs(shown.share - 0.4)).toBeLessThan(0.1);
    const log = { header: { format: "rubato-events-2", groups: [of] } as const, rows: Float64Array.from(run.rows) };
    expect(replay(log, groupPolicy, liveSpec)).toMatchObject({ commands: 6, difference: null });
  },
);

test.each([
  ["the policy goes by the profile", group(), { accuracy: "profiled" }, "confidence"],
  ["the model does not say how sure it is", group(), { accuracy: "recent" }, null],
])("nothing is told where %s", (_, of, options, confidence) => {
  const run = new Run(of, options, confidence);
  expect(run.answers(ACCURACY).answers([0.6, 0.8, 0.4]).gammaOfNext()).toBe(4);
  expect(run.told).toBe(0);
});
