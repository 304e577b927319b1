/** A live server with one pipeline in virtual time, over accelerators and threads that take exactly what they are said to. */
import { expect } from "vitest";
import type { AcceleratorGroupSpec, ModelSpec } from "../../src/config/model.js";
import { parsePipelineFile } from "../../src/config/server/pipelines/pipeline-file.js";
import { timeUs } from "../../src/core/time.js";
import type { InferReply } from "../../src/serve/gateway.js";
import { profileOfEmulated } from "../../src/serve/models/model-profile.js";
import { ModelTimes } from "../../src/serve/models/model-times.js";
import { silentLog } from "../../src/serve/observation/log.js";
import { Server } from "../../src/serve/server.js";
import { ServingError } from "../../src/wire/serving-error.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";
import { VirtualPool } from "../fakes/virtual-pool.js";
import { type StepFate, VirtualSteps } from "../fakes/virtual-steps.js";
import { VirtualClock } from "./virtual-clock.js";

export class VirtualPipeline {
  /** A deadline's alarm comes after what happens at its moment, as in the simulator. */
  readonly clock = new VirtualClock({ lateUs: () => 1 });
  readonly server: Server;
  private broken: unknown = null;

  /** @param models emulated ones. @param file pipeline.yaml. */
  constructor(
    groups: readonly AcceleratorGroupSpec[],
    models: readonly ModelSpec[],
    file: string,
    fate?: () => StepFate,
  ) {
    const { clock } = this;
    const times = new Map(models.map((spec) => [spec.name, new ModelTimes(spec, profileOfEmulated(spec))]));
    this.server = new Server({
      clock,
      pool: new VirtualPool(clock, groups, (name, size) => times.get(name)!.us(size, null)),
      log: silentLog(),
      tracer: null,
      slots: 1 << 15,
      retriesMax: 1,
      eventLog: null,
      modelControl: "none",
      network: { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 },
      policyDefaults: { idle_dispatch: false, rate_window_s: 5, timer_slack_us: 0, isolation: false },
      onBroken: (error) => {
        this.broken = error;
      },
      models: {
        names: () => models.map(({ name }) => name),
        read: (name) => [models.find((spec) => spec.name === name)!],
        times: async ({ name }) => times.get(name)!,
      },
      pipelines: {
        pipelines: () => ["p"],
        isPipeline: (name) => name === "p",
        readPipeline: () => ({ folder: "", read: parsePipelineFile(file, "p/pipeline.yaml") }),
      },
      stepPools: ({ steps: { threads } }, steps) => new VirtualSteps(threads, steps, clock, fate),
    });
  }

  /** Resolves when the pipeline is served. */
  async start(): Promise<void> {
    const started = this.server.start();
    await this.clock.run(this.clock.now() + 1000);
    await started;
    expect(this.server.modelReady("p", "")).toBe(true);
  }

  /** @param over is told once, when it ended: what it answered, or why not. @param app of the request; "": none. */
  ask(inputs: readonly Tensor[], over: (reply: InferReply | null, error: ServingError | null) => void, app = ""): void {
    const call = {
      model: "p",
      version: "",
      id: "",
      inputs,
      outputs: [],
      receivedAt: timeUs(this.clock.now()),
      timeoutUs: null,
      transportDeadlineAt: null,
      parameters: app === "" ? {} : { app },
      traceparent: null,
      byteLength: 4,
    };
    try {
      this.server.infer(call, { onReply: (reply) => over(reply, null), onError: (error) => over(null, error) });
    } catch (error) {
      over(null, ServingError.from(error));
    }
  }

  /** Time passes; then nothing is left. */
  async end(at: number): Promise<void> {
    await this.clock.run(at);
    expect(this.broken).toBeNull();
    expect(this.server.pipelines.live).toBe(0);
    expect(this.server.driver.requests.count).toBe(0);
  }

  /** The value of a metric's line. */
  async metric(name: string, ...labels: string[]): Promise<number> {
    const lines = (await this.server.metrics()).split("\n");
    const line = lines.find((each) => each.startsWith(`${name}{`) && labels.every((label) => each.includes(label)));
    return line === undefined ? 0 : Number(line.slice(line.lastIndexOf(" ") + 1));
  }
}
