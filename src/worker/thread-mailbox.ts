/**
 * How a model's thread is given work: it sleeps in Atomics.wait and finds a small run in shared memory.
 *
 * A message to an event loop costs a clone, a write to wake the loop and a turn of it: about 60 µs of both threads
 * for 1 KB, against 15 for a copy and a futex. One slot is enough, because an accelerator does one thing at a time:
 * the owner posts nothing before the thread has answered. What does not fit, or is not a run, travels by the port; the
 * bell is the same.
 */
import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import type { ToThread } from "./thread-protocol.js";

/** Header and payload of a run that fit the slot; a copy of more costs more than handing memory over. */
export const MAILBOX_BYTES = 64 * 1024;

/** Cells of the control block. */
const BELL = 0;
const HEADER_BYTES = 1;
/** -1: nothing in the slot, look at the port. */
const PAYLOAD_BYTES = 2;
const MAY_WRITE = 3;
const CONTROL_LENGTH = 4;

export interface MailboxMemory {
  readonly control: SharedArrayBuffer;
  readonly slot: SharedArrayBuffer;
}

export function createMailbox(): MailboxMemory {
  return {
    control: new SharedArrayBuffer(CONTROL_LENGTH * Int32Array.BYTES_PER_ELEMENT),
    slot: new SharedArrayBuffer(MAILBOX_BYTES),
  };
}

/** A thread, or a port to one. */
export interface MessageSink {
  postMessage(message: unknown, transfer?: readonly ArrayBuffer[]): void;
}

export class MailboxSender {
  private readonly control: Int32Array;
  private readonly slot: Uint8Array;

  constructor(
    memory: MailboxMemory,
    private readonly thread: MessageSink,
  ) {
    this.control = new Int32Array(memory.control);
    this.slot = new Uint8Array(memory.slot);
  }

  post(message: ToThread, transfer: readonly ArrayBuffer[] = []): void {
    this.thread.postMessage(message, transfer);
    this.control[PAYLOAD_BYTES] = -1;
    this.ring();
  }

  /** @param payload memory of its own: it may be handed over. */
  run(header: Uint8Array, payload: Uint8Array, mayWrite: boolean): void {
    if (header.byteLength + payload.byteLength > MAILBOX_BYTES) {
      const transfer = payload.byteLength > 0 ? [payload.buffer as ArrayBuffer] : [];
      this.post({ kind: "run", header: Uint8Array.from(header), payload, mayWrite }, transfer);
      return;
    }
    this.slot.set(header, 0);
    this.slot.set(payload, header.byteLength);
    this.control[HEADER_BYTES] = header.byteLength;
    this.control[PAYLOAD_BYTES] = payload.byteLength;
    this.control[MAY_WRITE] = mayWrite ? 1 : 0;
    this.ring();
  }

  private ring(): void {
    Atomics.add(this.control, BELL, 1);
    Atomics.notify(this.control, BELL);
  }
}

export class MailboxReceiver {
  private readonly control: Int32Array;
  private readonly slot: Uint8Array;
  private seen = 0;

  constructor(
    memory: MailboxMemory,
    private readonly port: MessagePort,
  ) {
    this.control = new Int32Array(memory.control);
    this.slot = new Uint8Array(memory.slot);
  }

  /** Blocks the thread until there is a message. */
  next(): ToThread {
    for (;;) {
      while (Atomics.load(this.control, BELL) === this.seen) Atomics.wait(this.control, BELL, this.seen);
      this.seen = (this.seen + 1) | 0;
      const payloadBytes = this.control[PAYLOAD_BYTES]!;
      if (payloadBytes >= 0) return this.take(this.control[HEADER_BYTES]!, payloadBytes);
      const received = receiveMessageOnPort(this.port);
      if (received !== undefined) return received.message as ToThread;
    }
  }

  /** Copies: the runtime takes no shared memory, and wants it aligned. */
  private take(headerBytes: number, payloadBytes: number): ToThread {
    const header = new Uint8Array(headerBytes);
    header.set(this.slot.subarray(0, headerBytes));
    const payload = new Uint8Array(payloadBytes);
    payload.set(this.slot.subarray(headerBytes, headerBytes + payloadBytes));
    return { kind: "run", header, payload, mayWrite: this.control[MAY_WRITE] === 1 };
  }
}
