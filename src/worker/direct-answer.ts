/**
 * A model's thread writes small answers to the server itself, instead of waking the process's main thread to do it.
 *
 * Allowed while the thread's job runs: the main thread writes no frame then (onnx-host.ts holds its own back), and
 * nothing of an earlier one is still pending. The socket does not block; when the server has stopped reading, the thread
 * waits in steps until it takes the rest: a frame is never left half written.
 */
import { writeSync } from "node:fs";

/** A larger answer is written by the main thread, so that the next run need not wait for it. */
export const DIRECT_BYTES_MAX = 64 * 1024;

const RETRY_MS = 0.1;
const nothing = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

/** @throws the error of the socket when the server has gone. */
export function writeWhole(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.byteLength; ) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      Atomics.wait(nothing, 0, 0, RETRY_MS);
    }
  }
}
