/**
 * Entry of a worker process. The server talks to it over two inherited sockets (control, tensors) and never needs
 * its consent to end it: when the control channel closes, for whatever reason, the process is gone at once.
 */
import type { TaskBinding, TaskTrial } from "../config/elastic.js";
import type { ModelSpec } from "../config/model.js";
import { FrameChannel } from "../wire/frame-channel.js";
import { FRAME_LIMITS, type Frame, type FrameLimits } from "../wire/frames.js";
import { ServingError } from "../wire/serving-error.js";
import {
  CONTROL_FD,
  decodeControl,
  encodeControl,
  encodeFailed,
  FRAME_CONTROL,
  FRAME_FAILED,
  FRAME_FINISHED,
  FRAME_RUN,
  type FromWorker,
  TENSOR_FD,
  type ToWorker,
} from "../wire/worker-protocol.js";
import { EmulatedHost } from "./emulated/emulated-host.js";
import type { AcceleratorHost, Hello, HostOutput } from "./host.js";
import { text } from "./text.js";

const MEMORY_REPORT_MS = 1000;
/** Reports are sent when resident memory moved by this much. */
const MEMORY_STEP_BYTES = 1024 * 1024;

/** SIGKILL to ourselves: exiting the ordinary way would wait for, or abort in, a model that runs. */
const vanish = (): void => {
  process.kill(process.pid, "SIGKILL");
};

const control = FrameChannel.onDescriptor(CONTROL_FD, { onFrame: onControl, onClose: vanish });
let tensors: FrameChannel | null = null;
let host: AcceleratorHost | null = null;

function send(message: FromWorker): void {
  control.send(FRAME_CONTROL, encodeControl(message));
}

const output: HostOutput = {
  finished: (slot, batch, header, parts) => {
    try {
      tensors?.send(FRAME_FINISHED, header, parts);
    } catch (error) {
      // Nothing of the frame was written: the outputs are larger than a frame may be.
      output.failed(slot, batch, new Error(text(error)));
    }
  },
  failed: (slot, batch, error) => {
    const { code } = ServingError.from(error);
    tensors?.send(FRAME_FAILED, encodeFailed({ slot, batch, cause: "model-error", code, message: text(error) }));
  },
  log: (level, message) => send({ kind: "log", level, message }),
  isClear: () => tensors?.pendingBytes === 0,
};

function onControl(frame: Frame): void {
  const message = decodeControl<ToWorker<ModelSpec>>(frame.header);
  if (message.kind === "hello") {
    greet(message).catch((error: unknown) => die("cannot start", error));
    return;
  }
  const worker = host;
  if (worker === null) {
    die("protocol error", new Error(`'${message.kind}' before 'hello'`));
    return;
  }
  switch (message.kind) {
    case "load":
      reply(message.id, () =>
        worker.load(message.handle, message.model, message.warmUpMs, (message.tasks ?? []) as readonly TaskBinding[]),
      );
      break;
    case "bind":
      reply(message.id, () => worker.bind(message.handle, message.tasks as readonly TaskBinding[]));
      break;
    case "try":
      reply(message.id, () => worker.trial(message.handle, message.trial as TaskTrial));
      break;
    case "unload":
      reply(message.id, () => worker.unload(message.handle));
      break;
    case "time":
      reply(message.id, () => worker.time(message));
      break;
    case "cancel":
      reply(message.id, () => worker.cancel(message.slot, message.batch));
      break;
    case "fault":
      reply(message.id, () => worker.fault(message.slot, message.fault));
      break;
    case "shutdown":
      end(worker).catch((error: unknown) => die("cannot shut down", error));
  }
}

async function greet(hello: Hello): Promise<void> {
  process.title = `rubato-worker ${hello.worker}`;
  // Loaded only where it is used: an emulated worker needs no model runtime in memory.
  host =
    hello.worker === "onnx"
      ? new (await import("./onnx/onnx-host.js")).OnnxHost(hello, output)
      : new EmulatedHost(hello, output);
  await host.start();
  const limits: FrameLimits = { ...FRAME_LIMITS, payloadBytesMax: hello.payloadBytesMax };
  tensors = FrameChannel.onDescriptor(TENSOR_FD, { onFrame: onTensors, onClose: vanish }, limits);
  send({ kind: "ready", pid: process.pid, runtime: host.runtime, provider: host.provider });
  let reported = 0;
  setInterval(() => {
    const rssBytes = process.memoryUsage.rss();
    if (Math.abs(rssBytes - reported) < MEMORY_STEP_BYTES) return;
    reported = rssBytes;
    send({ kind: "memory", rssBytes });
  }, MEMORY_REPORT_MS).unref();
}

async function end(worker: AcceleratorHost): Promise<void> {
  await worker.shutdown();
  await tensors?.flushed();
  process.exit(0);
}

function onTensors(frame: Frame): void {
  if (frame.type === FRAME_RUN) host?.run(frame.header, frame.payload);
  else die("protocol error", new Error(`frame type ${frame.type} on the tensor channel`));
}

function reply(id: number, action: () => unknown): void {
  Promise.resolve()
    .then(action)
    .then(
      (value) => send({ kind: "done", id, value: value ?? null }),
      (error: unknown) => {
        const { code } = ServingError.from(error);
        send({ kind: "refused", id, code, message: text(error) });
      },
    );
}

function die(what: string, error: unknown): void {
  console.error(`worker: ${what}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  process.exit(70);
}

// Signals to the terminal's process group (Ctrl-C) are the server's business: it drains and then ends its workers.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => {});
process.on("uncaughtException", (error) => die("uncaught", error));
process.on("unhandledRejection", (error) => die("unhandled", error));
