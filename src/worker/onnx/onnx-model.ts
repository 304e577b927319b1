/** One loaded ONNX model: a session and the tensors around it. Blocks its thread while it runs: the runtime does. */
import { readFileSync } from "node:fs";
import path from "node:path";
import type { InferenceSession, Tensor as OrtTensor } from "onnxruntime-node";
import {
  gammaOf,
  IMAGES_FILE,
  LABELS_FILE,
  LOGITS,
  type TaskBinding,
  type TaskTrial,
  type TrialResult,
} from "../../config/elastic.js";
import type { ModelSpec } from "../../config/model.js";
import type { DurationUs, TimeUs } from "../../core/time.js";
import { between } from "../../core/time.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { ServingError } from "../../wire/serving-error.js";
import { DATATYPES, type Datatype, elementCount, type Tensor } from "../../wire/tensors/tensor.js";
import type { LogLevel } from "../../wire/worker-protocol.js";
import { assemble, split } from "../batching.js";
import { syntheticInputs } from "../synthetic.js";
import { text } from "../text.js";
import { BoundTasks, countRight, readEntries } from "./bound-tasks.js";
import { withTail } from "./model-tail.js";
import { ort } from "./onnx-runtime.js";
import { openInitializers } from "./open-initializers.js";
import { checkText, fromOrt, toOrt } from "./ort-tensor.js";
import { runtimeError } from "./runtime-error.js";

export interface Execution {
  readonly startedAt: TimeUs;
  readonly finishedAt: TimeUs;
  readonly inputUs: DurationUs;
  readonly outputUs: DurationUs;
  readonly outputs: readonly (readonly Tensor[])[];
}

/** How much work each member of a batch gets, and whose task it is; see RunRecord. */
export interface RunChoice {
  readonly variant: number;
  readonly kinds: readonly number[];
}

const NO_CHOICE: RunChoice = { variant: 0, kinds: [] };

export interface OnnxOptions {
  readonly threads: number;
  readonly providers: readonly string[];
  readonly log: (level: LogLevel, message: string) => void;
}

export class OnnxModel {
  /** Null: the model is not elastic. */
  private readonly tasks: BoundTasks | null;

  private constructor(
    private readonly spec: ModelSpec,
    private readonly session: InferenceSession,
    readonly provider: string,
    /** Fed where a batch leaves an input out. */
    private readonly initializers: Readonly<Record<string, OrtTensor>>,
  ) {
    this.tasks = spec.elastic === undefined ? null : new BoundTasks(spec.elastic);
  }

  /** The tasks of its batches from now on. @throws ServingError: one cannot be read, and nothing has changed. */
  bind(tasks: readonly TaskBinding[]): void {
    if (this.tasks === null)
      throw new ServingError("invalid-argument", `model '${this.spec.name}' is not elastic and has no tasks`);
    this.tasks.bind(tasks);
  }

  /**
   * Runs images of a task's profiling set.
   *
   * @throws ServingError where the task is not bound or a file ends before; of the runtime, or of logits that are no numbers.
   */
  async trial({ kind, variant, first, count }: TaskTrial): Promise<TrialResult> {
    const folder = this.tasks!.folderOf(kind);
    const { name, datatype, shape } = this.spec.inputs[0]!;
    const one = shape.slice(1);
    const bytes = elementCount(one) * DATATYPES[datatype as Datatype];
    const data = readEntries(path.join(folder, IMAGES_FILE), bytes, first, count);
    const labels = new Int32Array(readEntries(path.join(folder, LABELS_FILE), 4, first, count).buffer);
    const images: Tensor = { name, datatype: datatype as Datatype, shape: [count, ...one], data };
    const { outputs, startedAt, finishedAt } = await this.run([[images]], [LOGITS], { variant, kinds: [kind] });
    return {
      right: countRight(outputs[0]![0]!, labels, gammaOf(this.spec.elastic!, variant)),
      us: between(startedAt, finishedAt),
    };
  }

  /**
   * Tries the providers in order; one that is not installed is a warning and the next is taken.
   *
   * @throws ServingError invalid-argument with the runtime's text when the file cannot be loaded or is not what the
   *   specification says.
   */
  static async load(spec: ModelSpec, options: OnnxOptions): Promise<OnnxModel> {
    let last: unknown = null;
    const backed = spec.inputs.filter((input) => input.isBacked === true);
    const { tailFile } = spec;
    const file = tailFile === undefined ? spec.file! : withTail(readFileSync(spec.file!), readFileSync(tailFile));
    const open =
      backed.length === 0 ? null : openInitializers(typeof file === "string" ? readFileSync(file) : file, backed);
    const initializers = Object.fromEntries(open?.values.map((value) => [value.name, toOrt(value)]) ?? []);
    const model = open?.bytes ?? file;
    for (const provider of options.providers) {
      try {
        const settings: InferenceSession.SessionOptions = {
          executionProviders: [provider],
          intraOpNumThreads: options.threads,
          interOpNumThreads: 1,
          executionMode: "sequential",
          // The arena never gives memory back: with inputs of many sizes it would grow to the sum of the worst of each.
          enableCpuMemArena: false,
          // Errors reach the caller as exceptions; without this each is printed as well.
          logSeverityLevel: 4,
        };
        const session = await (typeof model === "string"
          ? ort.InferenceSession.create(model, settings)
          : ort.InferenceSession.create(model, settings));
        checkNames(spec, session);
        return new OnnxModel(spec, session, provider, initializers);
      } catch (error) {
        last = error;
        if (provider === "cpu") break;
        options.log("warn", `execution provider '${provider}' is not usable here (${text(error)}); trying the next`);
      }
    }
    if (last instanceof ServingError) throw last;
    throw new ServingError("invalid-argument", `model '${spec.name}' (${spec.file}) cannot be loaded: ${text(last)}`);
  }

  /** @throws ServingError with reason "model-error" and the runtime's text when the model refuses the batch. */
  async run(
    members: readonly (readonly Tensor[])[],
    wanted: readonly string[],
    { variant, kinds }: RunChoice = NO_CHOICE,
  ): Promise<Execution> {
    const from = monotonicNow();
    const batch = assemble(this.spec, members);
    const bound = this.tasks?.feeds(variant, kinds, batch.memberRows, batch.rows);
    const feeds: Record<string, OrtTensor> = { ...this.initializers, ...bound };
    for (const input of batch.inputs) feeds[input.name] = toOrt(input);
    const startedAt = monotonicNow();
    const results = await this.execute(feeds, wanted);
    const finishedAt = monotonicNow();
    const whole = Object.entries(results).map(([name, tensor]) => fromOrt(name, tensor as OrtTensor));
    checkText(whole, batch.inputs);
    const { tasks } = this;
    const apart = split(this.spec, batch, whole);
    const outputs = tasks === null ? apart : apart.map((each, member) => tasks.cut(kinds[member], each));
    const inputUs = between(from, startedAt);
    return { startedAt, finishedAt, inputUs, outputUs: between(finishedAt, monotonicNow()), outputs };
  }

  private async execute(feeds: Record<string, OrtTensor>, wanted: readonly string[]): Promise<Record<string, unknown>> {
    try {
      // All that the model serves, which may be fewer than the file has.
      const fetches = wanted.length === 0 ? this.spec.outputs.map(({ name }) => name) : wanted;
      return (await this.session.run(feeds, fetches as string[])) as Record<string, unknown>;
    } catch (error) {
      throw runtimeError(error);
    }
  }

  /** Microseconds of execution for each of `runs` runs on synthetic inputs. @param variant of each. */
  async time(rows: number, extent: number | null, runs: number, variant = 0): Promise<number[]> {
    const members = [syntheticInputs(this.spec, rows, extent)];
    const times: number[] = [];
    for (let i = 0; i < runs; i++) {
      const { startedAt, finishedAt } = await this.run(members, [], { variant, kinds: [] });
      times.push(between(startedAt, finishedAt));
    }
    return times;
  }

  /**
   * Runs growing batch sizes until the time is spent: first runs of a size allocate and are several times slower.
   * A model that refuses synthetic inputs is served all the same; the log has the reason.
   */
  async warmUp(budgetMs: number, log: OnnxOptions["log"]): Promise<void> {
    const until = monotonicNow() + budgetMs * 1000;
    const largest = this.spec.batchSizeFixed ?? Math.max(1, this.spec.batchSizeMax);
    try {
      for (let rows = this.spec.batchSizeFixed ?? 1; ; rows = Math.min(rows * 2, largest)) {
        const from = monotonicNow();
        await this.time(rows, null, 2);
        const spent = monotonicNow() - from;
        // The next size may take twice as long; stop before the budget is exceeded rather than after.
        if (rows === largest || monotonicNow() + 2 * spent > until) return;
      }
    } catch (error) {
      log("warn", `model '${this.spec.name}' was not warmed up: ${text(error)}`);
    }
  }

  async release(): Promise<void> {
    await this.session.release();
  }
}

function checkNames(spec: ModelSpec, session: InferenceSession): void {
  const compare = (what: string, declared: readonly { name: string }[], actual: readonly string[]): void => {
    const missing = declared.find((tensor) => !actual.includes(tensor.name));
    if (missing !== undefined)
      throw new ServingError(
        "invalid-argument",
        `model '${spec.name}': ${what} '${missing.name}' is declared but the file has ${actual.join(", ")}`,
      );
  };
  compare("input", spec.inputs, session.inputNames);
  compare("output", spec.outputs, session.outputNames);
}

export const runtimeName = (): string => `onnxruntime ${ort.env.versions.node ?? ort.env.versions.common}`;
