/**
 * What is known of a call before its method is: when its headers arrived and when its gRPC deadline passes, on the
 * monotonic clock, and where its messages come in.
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
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import type { ServingError } from "../../wire/serving-error.js";
import type { Connections, MethodRules } from "./connections.js";
import type { Inlet } from "./inlet.js";
import { statusOf } from "./status.js";
import { Unreadable } from "./unreadable.js";

export interface Receipt {
  readonly receivedAt: TimeUs;
  /** null: the client set no deadline. */
  readonly deadlineAt: TimeUs | null;
}

export interface Reception extends Receipt {
  readonly inlet: Inlet;
}

/** Messages of a stream that is no inference (reflection) that wait for their answers to be taken; then it is not read. */
const UNANSWERED_MAX = 16;

const receptions = new WeakMap<Metadata, Reception>();

/** @param onRefused an inference was refused before its method saw it. */
export function receptionInterceptor(
  connections: Connections,
  rulesOf: (path: string) => Pick<MethodRules, "bytesMax" | "isInference">,
  onRefused: (error: ServingError) => void,
): ServerInterceptor {
  return (method, call) => {
    const isUnary = !method.requestStream;
    const rules: MethodRules = { ...rulesOf(method.path), isUnary };
    const inlet = connections.open(call, rules, (error) => {
      if (rules.isInference) onRefused(error);
      call.sendStatus(statusOf(error));
    });
    const reception = { ...takeReceipt(call), inlet };
    let unanswered = 0;
    let goOn: (() => void) | null = null;
    return new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata: (metadata, forward) => {
            receptions.set(metadata, reception);
            forward(metadata);
          },
          onReceiveMessage: (message, forward) => {
            if (message instanceof Unreadable) call.sendStatus(statusOf(message.error));
            else if (isUnary || rules.isInference || ++unanswered <= UNANSWERED_MAX) forward(message);
            else goOn = () => forward(message);
          },
        }),
      // The answer before has been taken by the time that one is sent.
      sendMessage: (message, forward) => {
        unanswered--;
        forward(message);
        const waiting = goOn;
        goOn = null;
        waiting?.();
      },
    });
  };
}

function takeReceipt(call: ServerInterceptingCallInterface): Receipt {
  const receivedAt = monotonicNow();
  const deadline = call.getDeadline();
  const ms = typeof deadline === "number" ? deadline : deadline.getTime();
  if (!Number.isFinite(ms)) return { receivedAt, deadlineAt: null };
  const remainingUs = Math.max(0, (ms - Date.now()) * 1000);
  return { receivedAt, deadlineAt: (receivedAt + remainingUs) as TimeUs };
}

/** The reception of a call, by its metadata. */
export function receptionOf(metadata: Metadata): Reception {
  return receptions.get(metadata)!;
}
