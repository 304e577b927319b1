/**
 * Entry of a thread that owns one model. ONNX Runtime blocks the thread that runs or loads: with a thread per model
 * a load never holds up the runs of another, and the process's main thread stays free for frames and cancellations.
 * The thread is only ever asked to stop while idle: terminating it during a run would abort the process. Between jobs
 * it sleeps on its mailbox, event loop and all.
 */
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { encodeFrame } from "../wire/frames.js";
import { ServingError } from "../wire/serving-error.js";
import { decodeRun, encodeFinished, FRAME_FINISHED, type LogLevel, TENSOR_FD } from "../wire/worker-protocol.js";
import { writeWhole } from "./direct-answer.js";
import { OnnxModel } from "./onnx/onnx-model.js";
import { text } from "./text.js";
import { MailboxReceiver } from "./thread-mailbox.js";
import type { FromThread, ModelThreadData, ToThread } from "./thread-protocol.js";
import { timingOf } from "./timing.js";

const port = parentPort as MessagePort;
const data = workerData as ModelThreadData;
const send = (message: FromThread, transfer: readonly ArrayBuffer[] = []): void => port.postMessage(message, transfer);
const log = (level: LogLevel, message: string): void => send({ kind: "log", level, message });

async function run(model: OnnxModel, message: Extract<ToThread, { kind: "run" }>): Promise<void> {
  const { header, payload, mayWrite } = message;
  const record = decodeRun(asBuffer(header), asBuffer(payload));
  const execution = await model.run(record.members, record.outputs, record);
  const finished = encodeFinished({ slot: record.slot, batch: record.batch, ...execution });
  const bytes = finished.parts.reduce((sum, part) => sum + part.byteLength, 0);
  if (mayWrite && bytes <= data.directBytesMax) {
    for (const piece of encodeFrame(FRAME_FINISHED, finished.header, finished.parts)) writeWhole(TENSOR_FD, piece);
    send({ kind: "answered" });
    return;
  }
  // Posting a view clones the whole memory behind it; handing the memory over costs nothing.
  const memories = new Set<ArrayBuffer>();
  const parts = finished.parts.map((part) => own(part));
  for (const part of parts) memories.add(part.buffer as ArrayBuffer);
  const encoded = Uint8Array.from(finished.header);
  memories.add(encoded.buffer);
  send({ kind: "finished", header: encoded, parts }, [...memories]);
}

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Short parts are copied: they may be views of shared memory, such as the padding between tensors. */
function own(part: Uint8Array): Uint8Array {
  return part.byteLength <= 64 || !(part.buffer instanceof ArrayBuffer) ? Uint8Array.from(part) : part;
}

const time = (model: OnnxModel, { rows, extent, runs, variant }: Extract<ToThread, { kind: "time" }>) =>
  model.time(rows, extent, runs, variant);

async function serve(model: OnnxModel, message: ToThread): Promise<void> {
  switch (message.kind) {
    case "run":
      await run(model, message);
      break;
    case "time":
      send({ kind: "timed", timing: timingOf(await time(model, message)) });
      break;
    case "bind":
      model.bind(message.tasks);
      send({ kind: "bound" });
      break;
    case "try":
      send({ kind: "tried", result: await model.trial(message.trial) });
      break;
    case "stop":
      await model.release();
  }
}

try {
  const model = await OnnxModel.load(data.model, { threads: data.threads, providers: data.providers, log });
  if (data.tasks.length > 0) model.bind(data.tasks);
  if (data.warmUpMs > 0) await model.warmUp(data.warmUpMs, log);
  const mailbox = new MailboxReceiver(data.mailbox, port);
  send({ kind: "loaded", provider: model.provider });
  for (let message = mailbox.next(); ; message = mailbox.next()) {
    await serve(model, message).catch((error: unknown) =>
      send({ kind: "failed", code: ServingError.from(error).code, message: text(error) }),
    );
    if (message.kind === "stop") break;
  }
  port.close();
} catch (error) {
  send({ kind: "load-failed", code: ServingError.from(error).code, message: text(error) });
  port.close();
}
