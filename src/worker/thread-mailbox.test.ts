import { MessageChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { createMailbox, MAILBOX_BYTES, MailboxReceiver, MailboxSender } from "./thread-mailbox.js";

function mailbox() {
  const memory = createMailbox();
  const { port1, port2 } = new MessageChannel();
  port1.unref();
  return { sender: new MailboxSender(memory, port1 as never), receiver: new MailboxReceiver(memory, port2) };
}

test("small runs travel in shared memory, large ones and the rest by the port, each once and in order", () => {
  const { sender, receiver } = mailbox();
  const header = Uint8Array.of(1, 2, 3);
  for (const bytes of [0, 1, 1024, MAILBOX_BYTES - 3, MAILBOX_BYTES - 2, 200_000]) {
    const payload = new Uint8Array(bytes).fill(bytes % 251);
    const copy = Uint8Array.from(payload);
    const mayWrite = bytes % 2 === 0;
    sender.run(header, payload, mayWrite);
    const message = receiver.next();
    if (message.kind !== "run") throw new Error(`a run became ${message.kind}`);
    expect([...message.header]).toEqual([1, 2, 3]);
    expect(Buffer.compare(message.payload, copy)).toBe(0);
    expect(message.mayWrite).toBe(mayWrite);
    // The runtime takes no shared memory.
    expect(message.payload.buffer).toBeInstanceOf(ArrayBuffer);
    expect(message.payload.byteOffset).toBe(0);
    sender.post({ kind: "time", rows: bytes, extent: null, runs: 1, variant: 2 });
    expect(receiver.next()).toEqual({ kind: "time", rows: bytes, extent: null, runs: 1, variant: 2 });
  }
});

test("a run that was taken is not changed by the next", () => {
  const { sender, receiver } = mailbox();
  sender.run(Uint8Array.of(1), Uint8Array.of(10, 11), true);
  const first = receiver.next();
  sender.run(Uint8Array.of(2), Uint8Array.of(20), true);
  expect(receiver.next()).toMatchObject({ header: Uint8Array.of(2), payload: Uint8Array.of(20) });
  expect(first).toMatchObject({ header: Uint8Array.of(1), payload: Uint8Array.of(10, 11) });
});
