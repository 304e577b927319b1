/** A server over the fake pool, and calls to it, for tests. */
import type { AcceleratorGroupSpec, ModelSpec } from "../../src/config/model.js";
import { durationUs } from "../../src/core/time.js";
import type { InferCall, InferReply } from "../../src/serve/gateway.js";
import { profileOfEmulated } from "../../src/serve/models/model-profile.js";
import { ModelTimes } from "../../src/serve/models/model-times.js";
import { silentLog } from "../../src/serve/observation/log.js";
import { Server, type ServerOptions } from "../../src/serve/server.js";
import type { RunBatch } from "../../src/serve/workers/worker-pool.js";
import { monotonicNow } from "../../src/wire/clock/monotonic-clock.js";
import { ServingError } from "../../src/wire/serving-error.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";
import { FakePool } from "./fake-pool.js";

export function modelSpec(changes: Partial<ModelSpec> = {}): ModelSpec {
  const tensor = { datatype: "FP32", shape: [-1, 1], batchAxis: 0, variable: null, optional: false };
  return {
    name: "m",
    version: "1",
    versions: ["1"],
    platform: "rubato_emulated",
    file: null,
    folder: "",
    inputs: [{ name: "x", ...tensor }],
    outputs: [{ name: "y", ...tensor }],
    batchSizeMax: 8,
    batchSizeFixed: null,
    sloUs: null,
    defaultTimeoutUs: durationUs(60_000_000),
    timeoutMaxUs: durationUs(60_000_000),
    policy: "deferred",
    policyOptions: {},
    group: "g",
    queueRequestsMax: 1000,
    queueBytesMax: 1 << 30,
    emulated: { alphaMs: 1, betaMs: 9, tableMs: null },
    apps: [],
    parameters: {},
    ...changes,
  };
}

export const group = (count: number, changes: Partial<AcceleratorGroupSpec> = {}): AcceleratorGroupSpec => ({
  name: "g",
  kind: "emulated",
  count,
  threads: 1,
  scales: new Array<number>(count).fill(1),
  ...changes,
});

export interface Ended {
  readonly reply: InferReply | null;
  readonly error: ServingError | null;
  readonly afterMs: number;
}

export class FakeServer {
  readonly pool: FakePool;
  readonly server: Server;
  readonly specs: ModelSpec[];
  /** Answers that came after the first of a call: must stay 0. */
  extraAnswers = 0;
  broken: unknown = null;
  /** What timing a model fails with. */
  timesError: Error | null = null;
  /** Rejects when the scheduler breaks: what is in flight then never ends. */
  readonly whenBroken: Promise<never>;

  constructor(
    specs: ModelSpec[],
    groups: readonly AcceleratorGroupSpec[],
    options: Partial<ServerOptions> & { execMs?: (batch: RunBatch) => number } = {},
  ) {
    this.specs = specs;
    let onBroken: (error: unknown) => void = () => {};
    this.whenBroken = new Promise((_, reject) => {
      onBroken = reject;
    });
    this.whenBroken.catch(() => {});
    const times = new Map(specs.map((spec) => [spec.name, new ModelTimes(spec, profileOfEmulated(spec))]));
    const execMs =
      options.execMs ?? ((batch: RunBatch) => times.get(batch.model)!.us(batch.members.length, null) / 1000);
    this.pool = new FakePool(groups, execMs);
    this.server = new Server({
      pool: this.pool,
      log: silentLog(),
      tracer: null,
      slots: 4096,
      retriesMax: 1,
      eventLog: null,
      schedulerMode: "inline",
      modelControl: "none",
      onBroken: (error) => {
        this.broken = error;
        onBroken(error);
      },
      models: {
        names: () => [...new Set(this.specs.map((spec) => spec.name))],
        read: (name) => {
          const versions = this.specs.filter((candidate) => candidate.name === name);
          if (versions.length === 0) throw new ServingError("not-found", `no model '${name}'`);
          return versions;
        },
        times: async (spec) => {
          if (this.timesError !== null) throw this.timesError;
          return new ModelTimes(spec, profileOfEmulated(spec));
        },
      },
      ...options,
    });
  }

  async start(): Promise<this> {
    await this.server.start();
    return this;
  }

  call(changes: Partial<InferCall> & { timeoutMs?: number; rows?: number; value?: number } = {}): InferCall {
    const rows = changes.rows ?? 1;
    return {
      model: "m",
      version: "",
      id: "",
      inputs: [fp32("x", rows, changes.value ?? 0)],
      outputs: [],
      receivedAt: monotonicNow(),
      timeoutUs: changes.timeoutMs === undefined ? null : durationUs(changes.timeoutMs * 1000),
      transportDeadlineAt: null,
      parameters: {},
      traceparent: null,
      byteLength: 4,
      ...changes,
    };
  }

  /** One inference; `cancelAfterMs` cancels it, and then the promise ends with neither reply nor error. */
  infer(changes: Parameters<FakeServer["call"]>[0] = {}, cancelAfterMs: number | null = null): Promise<Ended> {
    const startedAt = monotonicNow();
    return new Promise((resolve) => {
      let isOver = false;
      const end = (reply: InferReply | null, error: ServingError | null): void => {
        if (isOver) this.extraAnswers++;
        isOver = true;
        resolve({ reply, error, afterMs: (monotonicNow() - startedAt) / 1000 });
      };
      try {
        const cancel = this.server.infer(this.call(changes), {
          onReply: (reply) => end(reply, null),
          onError: (error) => end(null, error),
        });
        if (cancelAfterMs !== null)
          setTimeout(() => {
            if (isOver) return;
            cancel();
            end(null, null);
          }, cancelAfterMs);
      } catch (error) {
        end(null, ServingError.from(error));
      }
    });
  }

  /** The value of a metric's line, summed over lines whose labels contain all of `labels`. */
  async metric(name: string, labels: readonly string[] = []): Promise<number> {
    const text = await this.server.metrics();
    let sum = 0;
    for (const line of text.split("\n"))
      if ((line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && labels.every((label) => line.includes(label)))
        sum += Number(line.slice(line.lastIndexOf(" ") + 1));
    return sum;
  }

  async stop(): Promise<void> {
    await this.server.stop(0, 0, async () => {});
  }
}

export function fp32(name: string, rows: number, value: number): Tensor {
  const data = new Uint8Array(rows * 4);
  new DataView(data.buffer).setFloat32(0, value, true);
  return { name, datatype: "FP32", shape: [rows, 1], data };
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
