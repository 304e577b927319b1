/** A thread that runs steps, one at a time: their files are loaded once, and what they do wrong is said to the server. */
import { AsyncLocalStorage } from "node:async_hooks";
import { register } from "node:module";
import { setImmediate } from "node:timers";
import { workerData } from "node:worker_threads";
import { monotonicNow } from "../../../wire/clock/monotonic-clock.js";
import { describe } from "../../../wire/infer-parameters.js";
import { type ErrorCode, ServingError } from "../../../wire/serving-error.js";
import { isSound } from "./soundness.js";
import { type FromStepThread, type StepThreadData, type ToStepThread, textOf } from "./step-protocol.js";
import { fromStep, movable, type StepTensors, toStep } from "./step-tensors.js";

type Step = (inputs: StepTensors) => unknown;

const { steps, port, kept } = workerData as StepThreadData;
// Steps can import workerData, too; what they say themselves, to parentPort, is heard by nobody.
Reflect.deleteProperty(workerData as StepThreadData, "port");
const say = (message: FromStepThread, buffers: ArrayBuffer[] = []): void => port.postMessage(message, buffers);

/** What a run began goes on after its answer, such as a timer: whose it is, whatever runs when it does wrong. */
const owner = new AsyncLocalStorage<Pick<ToStepThread, "step">>();
/** What files begin while they are loaded is no run's. */
const NOBODY = { step: -1 };
let current: Pick<ToStepThread, "step"> = NOBODY;

// Also where an error that nobody catches ends the thread; not where it is terminated.
process.on("exit", () => {
  // Node knows no owner of a bare microtask; it is what runs.
  const whose = owner.getStore() ?? current;
  if (whose !== current || current === NOBODY) say({ kind: "ending", step: whose.step });
});

/** What is said of a step that leaves its thread unable to run others. */
const BROKEN = "what JavaScript comes with was changed, and steps cannot be run any more";
/** From then on nothing is run: the thread ends. */
let isBroken = false;

/** An error that carries this code says that the request is at fault, not the step. */
const CLIENTS_FAULT: ErrorCode = "invalid-argument";

async function load(): Promise<Step[]> {
  if (kept !== null) register(new URL("./kept-sources.js", import.meta.url), { data: kept });
  const functions: Step[] = [];
  for (const [step, { url, name, reference }] of steps.entries()) {
    say({ kind: "loading", step });
    // A file may end the process at once: who did it has left that by then.
    await new Promise((resolve) => port.once("message", resolve));
    let exports: Record<string, unknown>;
    try {
      exports = (await import(url)) as Record<string, unknown>;
    } catch (error) {
      throw new Error(`step '${reference}' cannot be loaded: ${textOf(error)}`);
    }
    const exported = exports[name];
    if (typeof exported !== "function")
      throw new Error(
        `step '${reference}' must export a function '${name}'; exports ${
          name in exports ? `it as ${describe(exported)}` : Object.keys(exports).join(", ") || "nothing"
        }`,
      );
    if (!isSound()) throw new Error(`step '${reference}' cannot be loaded beside others: ${BROKEN}`);
    functions.push(exported as Step);
  }
  return functions;
}

async function execute(functions: readonly Step[], message: ToStepThread): Promise<void> {
  const { run, step, inputs, refused } = message;
  if (isBroken) return;
  const startedAt = monotonicNow();
  if (refused !== undefined) {
    say({ kind: "failed", run, code: "payload-too-large", message: refused });
    return;
  }
  const mine = { step };
  current = mine;
  try {
    const returned = await owner.run(mine, () => functions[step]!(toStep(inputs)));
    const outputs = fromStep(returned, steps[step]!.outputs);
    const { values, buffers } = movable(outputs);
    say({ kind: "done", run, startedAt, finishedAt: monotonicNow(), outputs: values }, buffers);
  } catch (thrown) {
    say({ kind: "failed", run, code: isClients(thrown) ? CLIENTS_FAULT : "internal", message: textOf(thrown) });
  } finally {
    current = NOBODY;
    if (!isSound()) end(mine);
  }
}

/** As what the step left behind. */
function end(whose: Pick<ToStepThread, "step">): void {
  isBroken = true;
  owner.run(whose, () =>
    setImmediate(() => {
      throw new Error(BROKEN);
    }),
  );
}

/** Looking at what was thrown may throw, too. */
function isClients(thrown: unknown): boolean {
  try {
    return (thrown as { code?: unknown } | null)?.code === CLIENTS_FAULT && !(thrown instanceof ServingError);
  } catch {
    return false;
  }
}

try {
  const functions = await owner.run(NOBODY, load);
  let last = Promise.resolve();
  port.on("message", (message: ToStepThread) => {
    last = last.then(() => execute(functions, message));
  });
  say({ kind: "ready" });
} catch (error) {
  say({ kind: "unloadable", message: textOf(error) });
}
