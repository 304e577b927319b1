/** The thread behind body-pool.ts: decodes and encodes one body at a time. */
import { parentPort } from "node:worker_threads";
import { assertNever, invariant } from "../../core/invariant.js";
import { ServingError } from "../serving-error.js";
import type { BodyJob, BodyResult } from "./body-pool.js";
import { encodeAnswer } from "./infer-answer.js";
import { decodeInferBody } from "./infer-body.js";
import { decodeProto, readInferMessage, writeAnswer } from "./infer-proto.js";
import { encodeProto } from "./message-pieces.js";
import { checkTypedElements } from "./proto-scan.js";

invariant(parentPort !== null, "body-worker runs as a worker thread only");
const port = parentPort;

port.on("message", (job: BodyJob) => {
  const owned = new Set<ArrayBuffer>();
  let result: BodyResult;
  try {
    result = { kind: "done", job: job.job, value: work(job, owned) };
  } catch (thrown) {
    owned.clear();
    const error = ServingError.from(thrown);
    const { cause, ...details } = error.details;
    result = {
      kind: "refused",
      job: job.job,
      code: error.code,
      message: error.message,
      details,
      stack: cause instanceof Error ? (cause.stack ?? cause.message) : null,
    };
  }
  port.postMessage(result, [...owned]);
});

/** Does the job; `owned` receives the buffers of the result that go back without a copy. */
function work(job: BodyJob, owned: Set<ArrayBuffer>): Extract<BodyResult, { kind: "done" }>["value"] {
  const give = (bytes: Uint8Array): void => {
    if (bytes.buffer instanceof ArrayBuffer) owned.add(bytes.buffer);
  };
  switch (job.kind) {
    case "decode": {
      const body = decodeInferBody(job.body, job.headerLength);
      for (const input of body.inputs) give(input.data);
      return body;
    }
    case "decode-proto": {
      checkTypedElements(job.body);
      const message = readInferMessage(decodeProto(job.body));
      for (const input of message.inputs) give(input.data);
      return message;
    }
    case "encode": {
      const encoded = encodeAnswer(job.answer, job.id, job.format);
      // Small Buffers live in Node's shared pool, which must not be transferred.
      const pieces = encoded.pieces.map((piece) => new Uint8Array(piece));
      for (const piece of pieces) give(piece);
      return { ...encoded, pieces };
    }
    case "encode-proto": {
      const bytes = new Uint8Array(encodeProto(writeAnswer(job.answer, job.id, false)).join());
      give(bytes);
      return bytes;
    }
    default:
      return assertNever(job);
  }
}
