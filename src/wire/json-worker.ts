/** The thread behind json-pool.ts: decodes and encodes one body at a time. */
import { parentPort } from "node:worker_threads";
import { invariant } from "../core/invariant.js";
import { encodeAnswer } from "./infer-answer.js";
import { decodeInferBody } from "./infer-body.js";
import type { JsonJob, JsonResult } from "./json-pool.js";
import { ServingError } from "./serving-error.js";

invariant(parentPort !== null, "json-worker runs as a worker thread only");
const port = parentPort;

port.on("message", (job: JsonJob) => {
  const buffers = new Set<ArrayBuffer>();
  const own = (bytes: Uint8Array): void => {
    if (bytes.buffer instanceof ArrayBuffer) buffers.add(bytes.buffer);
  };
  let result: JsonResult;
  try {
    if (job.kind === "decode") {
      const value = decodeInferBody(job.body, job.headerLength);
      for (const input of value.inputs) own(input.data);
      result = { kind: "decoded", job: job.job, value };
    } else {
      const encoded = encodeAnswer(job.answer, job.id, job.format);
      // Small Buffers live in Node's shared pool, which must not be transferred.
      const value = { headerLength: encoded.headerLength, body: new Uint8Array(encoded.body) };
      own(value.body);
      result = { kind: "encoded", job: job.job, value };
    }
  } catch (thrown) {
    buffers.clear();
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
  port.postMessage(result, [...buffers]);
});
