/**
 * When did the headers of a call arrive, and when does its gRPC deadline pass, on the monotonic clock?
 *
 * grpc-js gives a deadline as wall-clock milliseconds, computed when the headers came. Turned into a remaining time in the
 * same tick, it is free of later jumps of the wall clock.
 */
import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
} from "@grpc/grpc-js";
import type { TimeUs } from "../../core/time.js";
import { monotonicNow } from "../../wire/monotonic-clock.js";

export interface Receipt {
  readonly receivedAt: TimeUs;
  /** null: the client set no deadline. */
  readonly deadlineAt: TimeUs | null;
}

const receipts = new WeakMap<Metadata, Receipt>();

export const receiptInterceptor: ServerInterceptor = (_method, call) => {
  const receipt = takeReceipt(call);
  return new ServerInterceptingCall(call, {
    start: (next) =>
      next({
        onReceiveMetadata: (metadata, forward) => {
          receipts.set(metadata, receipt);
          forward(metadata);
        },
      }),
  });
};

function takeReceipt(call: ServerInterceptingCallInterface): Receipt {
  const receivedAt = monotonicNow();
  const deadline = call.getDeadline();
  const ms = typeof deadline === "number" ? deadline : deadline.getTime();
  if (!Number.isFinite(ms)) return { receivedAt, deadlineAt: null };
  const remainingUs = Math.max(0, (ms - Date.now()) * 1000);
  return { receivedAt, deadlineAt: (receivedAt + remainingUs) as TimeUs };
}

/** The receipt of a call, by its metadata. */
export function receiptOf(metadata: Metadata): Receipt {
  return receipts.get(metadata) ?? { receivedAt: monotonicNow(), deadlineAt: null };
}
