/**
 * A server behind the doors, by hand: answers at once, or after a while, or with the error it is told to.
 * It checks what every call promises (a moment of receipt that has passed, tensors that fit) as the real one does.
 */
import type { ModelSpec, TensorSpec } from "../../src/config/model.js";
import { invariant } from "../../src/core/invariant.js";
import { durationUs } from "../../src/core/time.js";
import type {
  Gateway,
  InferCall,
  InferHandler,
  MetricsFormat,
  ModelStatistics,
  ParameterValue,
  RefusedCall,
  RepositoryIndexEntry,
  TaskRegistry,
  TaskStatus,
} from "../../src/serve/gateway.js";
import type { GroupScaling } from "../../src/serve/group-scaling.js";
import { validateInputs, validateOutputs } from "../../src/serve/requests/values/validate-inputs.js";
import { monotonicNow } from "../../src/wire/clock/monotonic-clock.js";
import { ERROR_CODES, type ErrorCode, ServingError } from "../../src/wire/serving-error.js";
import { DATATYPES, type Datatype, type Tensor } from "../../src/wire/tensors/tensor.js";
import { typedView } from "../../src/wire/tensors/tensor-json.js";

const tensor = (name: string, datatype: string, shape: number[], batchAxis: number | null): TensorSpec => ({
  name,
  datatype,
  shape,
  batchAxis,
  variable: null,
  optional: false,
});

function model(name: string, batchSizeMax: number, inputs: TensorSpec[], outputs: TensorSpec[]): ModelSpec {
  return {
    name,
    version: "2",
    versions: ["1", "2"],
    platform: "onnx_onnxv1",
    file: null,
    folder: "",
    inputs,
    outputs,
    batchSizeMax,
    batchSizeFixed: null,
    sloUs: durationUs(50_000),
    defaultTimeoutUs: durationUs(1_000_000),
    timeoutMaxUs: durationUs(10_000_000),
    policy: "deferred",
    policyOptions: {},
    group: "cpu",
    queueRequestsMax: 100,
    queueBytesMax: 1 << 30,
    emulated: null,
    apps: [],
    parameters: { owner: "tests" },
  };
}

/** Inputs come back as outputs of the same order. No SLO that a thread's start on a busy machine would miss. */
const identity = (name: string, datatype: string, shape: number[]): ModelSpec => ({
  ...model(name, 0, [tensor("x", datatype, shape, null)], [tensor("y", datatype, shape, null)]),
  sloUs: durationUs(5_000_000),
});

export const MODELS: readonly ModelSpec[] = [
  model("echo", 8, [tensor("x", "FP32", [-1, 4], 0)], [tensor("y", "FP32", [-1, 4], 0)]),
  model(
    "sum",
    4,
    [tensor("a", "FP32", [-1, 2], 0), tensor("b", "FP32", [-1, 2], 0)],
    [tensor("sum", "FP32", [-1, 2], 0), tensor("difference", "FP32", [-1, 2], 0)],
  ),
  ...Object.keys(DATATYPES).map((datatype) => identity(`identity_${datatype}`, datatype, [-1])),
  identity("word", "BYTES", [1]),
  identity("grid", "INT32", [-1, -1]),
  identity("group/echo", "FP32", [-1]),
  identity("group/ready", "FP32", [-1]),
  identity("stats", "FP32", [-1]),
  identity("späß & co", "FP32", [-1]),
  /** Answers the error whose code is in parameter `code`. */
  identity("error", "FP32", [-1]),
  /** Answers after parameter `delay_ms`, or at the deadline. */
  identity("slow", "FP32", [-1]),
  /** Answers NaN. */
  identity("nan", "FP32", [-1]),
];

export class FakeGateway implements Gateway {
  live = true;
  ready = true;
  readonly calls: InferCall[] = [];
  readonly cancelled: InferCall[] = [];
  readonly unloaded = new Set<string>();
  readonly loads: { name: string; parameters: Readonly<Record<string, ParameterValue>> }[] = [];
  readonly refusals: { call: RefusedCall; error: ServingError }[] = [];
  hasControl = true;
  inFlight = 0;
  private answered = 0;

  infer(call: InferCall, handler: InferHandler): () => void {
    const now = monotonicNow();
    invariant(
      Number.isSafeInteger(call.receivedAt) && call.receivedAt <= now,
      `receipt in the future: ${call.receivedAt}`,
    );
    if (!this.ready)
      throw new ServingError("unavailable", "the server is draining", { reason: "draining", retryAfterS: 2 });
    const spec = this.model(call.model, call.version);
    validateInputs(spec, call.inputs);
    validateOutputs(spec, call.outputs);
    this.calls.push(call);
    this.inFlight++;
    let isOver = false;
    const end = (then: () => void): void => {
      if (isOver) return;
      isOver = true;
      this.inFlight--;
      then();
    };
    const reply = (): void =>
      end(() => {
        this.answered++;
        const parameters = call.parameters.gamma === undefined ? {} : { gamma: call.parameters.gamma };
        handler.onReply({ model: spec.name, version: spec.version, outputs: outputsOf(spec, call), parameters });
      });
    if (spec.name === "error") {
      const code = String(call.parameters.code) as ErrorCode;
      invariant(Object.hasOwn(ERROR_CODES, code), `parameter code is ${code}`);
      const error = new ServingError(code, `told to answer ${code}`, {
        reason: String(call.parameters.reason ?? code),
        estimateUs: 1234,
        estimateSpreadUs: 56,
        deadlineUs: 5678,
        retryAfterS: 3,
        module: "second",
      });
      if (call.parameters.throws === true) end(() => {});
      if (call.parameters.throws === true) throw error;
      queueMicrotask(() => end(() => handler.onError(error)));
    } else if (spec.name === "slow") {
      const delayMs = Number(call.parameters.delay_ms ?? 200);
      const timer = setTimeout(reply, delayMs);
      const deadlineAt = Math.min(
        call.transportDeadlineAt ?? Number.POSITIVE_INFINITY,
        call.timeoutUs === null ? Number.POSITIVE_INFINITY : call.receivedAt + call.timeoutUs,
      );
      if (Number.isFinite(deadlineAt))
        setTimeout(
          () => {
            clearTimeout(timer);
            end(() => handler.onError(new ServingError("deadline-exceeded", "too late", { reason: "expired" })));
          },
          (deadlineAt - now) / 1000,
        );
      return () =>
        end(() => {
          clearTimeout(timer);
          this.cancelled.push(call);
        });
    } else setImmediate(reply);
    return () => end(() => this.cancelled.push(call));
  }

  refused(call: RefusedCall, error: ServingError): void {
    this.refusals.push({ call, error });
  }

  checkControl(what: "load" | "unload"): void {
    if (!this.hasControl)
      throw new ServingError("unavailable", `${what} needs model_control 'explicit'; was 'none'`, {
        reason: "model-control",
      });
  }

  modelNames(): readonly string[] {
    return MODELS.map((entry) => entry.name).filter((name) => !this.unloaded.has(name));
  }

  model(name: string, version: string): ModelSpec {
    const spec = this.unloaded.has(name) ? undefined : MODELS.find((entry) => entry.name === name);
    if (spec === undefined)
      throw new ServingError("not-found", `Request for unknown model: '${name}' is not found`, {
        reason: "unknown-model",
      });
    if (version !== "" && !spec.versions.includes(version))
      throw new ServingError(
        "not-found",
        `Request for unknown model: '${name}' version ${version} is not found, expected ${spec.versions.join(" or ")}`,
        { reason: "unknown-version" },
      );
    return spec;
  }

  modelReady(name: string, version: string): boolean {
    return this.modelFault(name, version) === "";
  }

  modelFault(name: string, version: string): string {
    this.model(name, version);
    return this.ready ? "" : "the server is shutting down";
  }

  statistics(name: string | null, version: string): readonly ModelStatistics[] {
    const names = name === null || name === "" ? this.modelNames() : [name];
    const one = { count: this.answered, ns: this.answered * 1000 };
    return names.map((entry) => ({
      name: entry,
      version: version === "" ? "2" : version,
      lastInferenceMs: 1_700_000_000_000,
      inferenceCount: this.answered,
      executionCount: this.answered,
      success: one,
      fail: { count: 0, ns: 0 },
      queue: one,
      computeInput: one,
      computeInfer: one,
      computeOutput: one,
      batches: [{ batchSize: 1, computeInput: one, computeInfer: one, computeOutput: one }],
    }));
  }

  repositoryIndex(onlyReady: boolean): readonly RepositoryIndexEntry[] {
    const all = MODELS.map(({ name }) =>
      this.unloaded.has(name)
        ? ({ name, version: "2", state: "UNAVAILABLE", reason: "unloaded" } as const)
        : ({ name, version: "2", state: "READY", reason: "" } as const),
    );
    return onlyReady ? all.filter((entry) => entry.state === "READY") : all;
  }

  async load(name: string, parameters: Readonly<Record<string, ParameterValue>>): Promise<void> {
    if (!MODELS.some((entry) => entry.name === name))
      throw new ServingError("not-found", `model '${name}' is not in the repository`, { reason: "unknown-model" });
    this.loads.push({ name, parameters });
    this.unloaded.delete(name);
  }

  async unload(name: string): Promise<void> {
    this.model(name, "");
    this.unloaded.add(name);
  }

  readonly registered: TaskStatus[] = [];
  readonly tasks: TaskRegistry = {
    list: () => this.registered,
    get: (_model, task) => {
      const found = this.registered.find(({ name }) => name === task);
      if (found === undefined) throw new ServingError("not-found", `no task '${task}'`, { reason: "unknown-task" });
      return found;
    },
    check: () => {},
    register: async (model, name, { tensors }) => {
      const gammas = [{ gamma: 0, accuracy: 0.5, latencies: [{ batchSize: 1, us: 1000 }] }];
      const classes = tensors.map((each) => each.name);
      const task = {
        model,
        name,
        state: "PROFILING",
        reason: "",
        version: 0,
        profilingVersion: 1,
        profiling: null,
        gammas,
        classes,
      } as const;
      this.registered.push({ ...task, utility: 1, sloMs: 0 });
      return this.registered.at(-1)!;
    },
    remove: async (model, task) => {
      const found = this.tasks.get(model, task);
      this.registered.splice(this.registered.indexOf(found), 1);
      return found;
    },
  };

  groups: GroupScaling[] = [];
  scaling(): readonly GroupScaling[] {
    return this.groups;
  }

  async metrics(format?: MetricsFormat): Promise<string> {
    if (format === "openmetrics") return "# TYPE rubato_up gauge\nrubato_up 1\n# EOF\n";
    return "# HELP rubato_up 1 while serving.\n# TYPE rubato_up gauge\nrubato_up 1\n";
  }
}

function outputsOf(spec: ModelSpec, call: InferCall): Tensor[] {
  const all = spec.name === "sum" ? sums(call.inputs) : copies(spec, call.inputs);
  return call.outputs.length === 0 ? all : call.outputs.map((name) => all.find((output) => output.name === name)!);
}

function copies(spec: ModelSpec, inputs: readonly Tensor[]): Tensor[] {
  return inputs.map((input, index) => ({
    ...input,
    datatype: input.datatype as Datatype,
    name: spec.outputs[index]!.name,
    data: spec.name === "nan" ? new Uint8Array(new Float32Array([1, Number.NaN]).buffer) : input.data,
    shape: spec.name === "nan" ? [2] : input.shape,
  }));
}

function sums(inputs: readonly Tensor[]): Tensor[] {
  const a = inputs.find((input) => input.name === "a")!;
  const left = typedView(a) as Float32Array;
  const right = typedView(inputs.find((input) => input.name === "b")!) as Float32Array;
  const make = (name: string, combine: (x: number, y: number) => number): Tensor => ({
    name,
    datatype: "FP32",
    shape: a.shape,
    data: new Uint8Array(left.map((x, index) => combine(x, right[index]!)).buffer),
  });
  return [make("sum", (x, y) => x + y), make("difference", (x, y) => x - y)];
}
