import { describe, expect, test } from "vitest";
import type { FrameChannel } from "../../../wire/frame-channel.js";
import type { Frame } from "../../../wire/frames.js";
import { type FromStepHost, readFromHost, sayFrame } from "./step-frames.js";

function framed(message: FromStepHost): Frame {
  let frame: Frame | null = null;
  const send = (type: number, header: Buffer, parts: Uint8Array[]): void => {
    frame = { type, header, payload: Buffer.concat(parts) };
  };
  sayFrame({ send } as unknown as FrameChannel, message);
  return frame!;
}

const tensor = (name: string, bytes: readonly number[]) => ({
  name,
  datatype: "UINT8" as const,
  shape: [bytes.length],
  data: Buffer.from(bytes),
});
const DONE: FromStepHost = {
  kind: "done",
  thread: 1,
  life: 3,
  run: 7,
  startedAt: 1.5,
  finishedAt: 2,
  outputs: [
    { name: "one", value: tensor("one", [1, 2]) },
    { name: "list", value: [tensor("a", []), tensor("b", [3])] },
  ],
};

describe("frames of a process of steps", () => {
  test.each<FromStepHost>([
    DONE,
    { kind: "up", thread: 0, life: 1 },
    { kind: "down", thread: 0, life: 1, message: "m" },
    { kind: "failed", thread: 1, life: 1, run: 2, code: "internal", message: "m" },
    { kind: "unloadable", message: "m" },
    { kind: "loading", step: 0 },
    { kind: "started" },
    { kind: "replacing" },
    { kind: "stuck", message: "m" },
  ])("$kind comes as it was said", (message) => {
    expect(readFromHost(framed(message), 2)).toEqual(message);
  });

  const raw = (header: string, payload = ""): Frame => ({
    type: 1,
    header: Buffer.from(header),
    payload: Buffer.from(payload),
  });
  const done = (change: object): Frame => {
    const { header, payload } = framed(DONE);
    return { type: 1, header: Buffer.from(JSON.stringify({ ...JSON.parse(header.toString()), ...change })), payload };
  };
  test.each<[string, Frame]>([
    ["no JSON", raw("{")],
    ["null", raw("null")],
    ["of no kind", raw('{"kind":"hello"}')],
    ["of an inherited kind", raw('{"kind":"constructor","thread":0,"life":1}')],
    ["of a thread that is not there", done({ thread: 2 })],
    ["of no life", done({ life: null })],
    ["of a life before all", done({ life: -1 })],
    ["of a run that is no number", done({ run: "7" })],
    ["of no time", done({ startedAt: null })],
    ["of a code that is none", raw('{"kind":"failed","thread":0,"life":1,"run":1,"code":"x","message":"m"}')],
    ["of outputs that are none", done({ outputs: [1] })],
    ["with bytes of no tensor", done({ outputs: [] })],
    ["without its bytes", { ...framed(DONE), payload: Buffer.alloc(1) }],
    ["of a negative extent", done({ outputs: [{ name: "x", value: { ...tensor("x", []), data: 3, shape: [-3] } }] })],
    ["of fewer than no bytes", done({ outputs: [{ name: "x", value: { ...tensor("x", []), data: -1 } }] })],
  ])("%s is no message", (_, frame) => {
    expect(readFromHost(frame, 2)).toBeNull();
  });
});
