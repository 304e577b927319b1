/** A thread that runs steps, one at a time: their files are loaded once, and what they do wrong is said to the server. */
import { parentPort, workerData } from "node:worker_threads";
import { monotonicNow } from "../../../wire/clock/monotonic-clock.js";
import { type ErrorCode, ServingError } from "../../../wire/serving-error.js";
import type { FromStepThread, StepThreadData, ToStepThread } from "./step-protocol.js";
import { fromStep, movable, type StepTensors, toStep } from "./step-tensors.js";

type Step = (inputs: StepTensors) => unknown;

const { steps } = workerData as StepThreadData;
const port = parentPort!;
const say = (message: FromStepThread, buffers: ArrayBuffer[] = []): void => port.postMessage(message, buffers);

/** An error that carries this code says that the request is at fault, not the step. */
const CLIENTS_FAULT: ErrorCode = "invalid-argument";
const MESSAGE_CHARS_MAX = 1000;

async function load(): Promise<Step[]> {
  const functions: Step[] = [];
  for (const { url, name, reference } of steps) {
    let exports: Record<string, unknown>;
    try {
      exports = (await import(url)) as Record<string, unknown>;
    } catch (error) {
      throw new Error(`step '${reference}' cannot be loaded: ${messageOf(error)}`);
    }
    const exported = exports[name];
    if (typeof exported !== "function")
      throw new Error(
        `step '${reference}' must export a function '${name}'; exports ${Object.keys(exports).join(", ") || "nothing"}`,
      );
    functions.push(exported as Step);
  }
  return functions;
}

async function execute(functions: readonly Step[], { run, step, inputs }: ToStepThread): Promise<void> {
  const startedAt = monotonicNow();
  try {
    const outputs = fromStep(await functions[step]!(toStep(inputs)), steps[step]!.outputs);
    const { values, buffers } = movable(outputs);
    say({ kind: "done", run, startedAt, finishedAt: monotonicNow(), outputs: values }, buffers);
  } catch (error) {
    const isClients = (error as { code?: unknown } | null)?.code === CLIENTS_FAULT && !(error instanceof ServingError);
    say({ kind: "failed", run, code: isClients ? CLIENTS_FAULT : "internal", message: messageOf(error) });
  }
}

const messageOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).slice(0, MESSAGE_CHARS_MAX);

try {
  const functions = await load();
  let last = Promise.resolve();
  port.on("message", (message: ToStepThread) => {
    last = last.then(() => execute(functions, message));
  });
  say({ kind: "ready" });
} catch (error) {
  say({ kind: "unloadable", message: messageOf(error) });
}
