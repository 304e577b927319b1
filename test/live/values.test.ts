/** Every datatype through both doors, a worker and the real runtime: what goes in comes out, bit for bit. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { credentials } from "@grpc/grpc-js";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunningServer } from "../../src/serve/running-server.js";
import { monotonicNow } from "../../src/wire/clock/monotonic-clock.js";
import { parseLossless } from "../../src/wire/infer/lossless-json.js";
import {
  GRPCInferenceServiceClient,
  ModelInferRequest,
  type ModelInferResponse,
} from "../../src/wire/proto/inference.js";
import { SLICE_BYTES } from "../../src/wire/sliced.js";
import { packBytes } from "../../src/wire/tensors/tensor-bytes.js";
import { binaryBody, unary, until } from "../doors/harness.js";
import { KINDS, type Kind } from "../support/datatypes.js";
import { buildOnnx } from "../support/onnx-builder.js";
import { serveIn } from "../support/running-server.js";

const SEED = 8;

/** JSON and typed contents have no FP16. */
const TYPED = KINDS.filter(({ contents }) => contents !== null);
const isFloat = ({ datatype }: Kind): boolean => datatype === "FP32" || datatype === "FP64";

/** A tensor as its elements' bytes. */
type Elements = readonly Buffer[];
type Values = ReadonlyMap<Kind, Elements>;

const EDGES: Readonly<Record<string, readonly string[]>> = {
  // Greatest and smallest finite, least subnormal, -0, infinities, NaNs quiet and signalling with payloads.
  FP32: ["ffff7f7f", "ffff7fff", "01000000", "00000080", "0000807f", "000080ff", "0100807f", "efbec0ff"],
  FP64: ["ffffffffffffef7f", "0100000000000000", "0000000000000080", "000000000000f0ff", "010000000000f07f"],
  FP16: ["ff7b", "0100", "0080", "007c", "017c", "fffe"],
  INT64: ["0000000000000080", "ffffffffffffff7f", "0100000000002000"],
  UINT64: ["ffffffffffffffff", "0100000000002000"],
};
const TEXTS = ["", "\ufeff", "\ufeffx", "\ufffd", "😀", "é\u0301", "\u2028", '"\\'];

function element(kind: Kind): fc.Arbitrary<Buffer> {
  if (kind.size === 0)
    return fc
      .oneof(fc.constantFrom(...TEXTS), fc.string({ unit: "binary" }))
      .map((text) => Buffer.from(text.replaceAll("\0", "")));
  if (kind.datatype === "BOOL") return fc.boolean().map((value) => Buffer.of(Number(value)));
  const any = fc.uint8Array({ minLength: kind.size, maxLength: kind.size }).map((bytes) => Buffer.from(bytes));
  const edges = (EDGES[kind.datatype] ?? []).map((hex) => Buffer.from(hex, "hex"));
  return edges.length === 0 ? any : fc.oneof(any, fc.constantFrom(...edges));
}
const values = (count: number): fc.Arbitrary<Values> =>
  fc
    .tuple(...KINDS.map((kind) => fc.array(element(kind), { minLength: count, maxLength: count })))
    .map((lists) => new Map(lists.map((list, i) => [KINDS[i]!, list])));

const toBytes = (kind: Kind, elements: Elements): Buffer =>
  Buffer.from(kind.size === 0 ? packBytes([...elements]) : Buffer.concat(elements));
const toValue = ({ read }: Kind, bytes: Buffer): unknown =>
  read === undefined ? bytes.toString() : read(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), 0);
function fromValue(kind: Kind, value: unknown): Buffer {
  if (kind.write === undefined) return Buffer.from(value as string);
  const bytes = Buffer.alloc(kind.size);
  kind.write(new DataView(bytes.buffer, bytes.byteOffset), 0, value as never);
  return bytes;
}
/** JavaScript's own writers turn -0 into 0 and know no bigint. */
const jsonText = (value: unknown): string =>
  Object.is(value, -0) ? "-0" : typeof value === "bigint" ? String(value) : JSON.stringify(value);

let folder: string;
let running: RunningServer;
let client: GRPCInferenceServiceClient;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-values-"));
  const put = (name: string, kinds: readonly Kind[], dims: readonly string[]) => {
    const tensors = (prefix: string) => kinds.map(({ datatype, type }) => ({ name: prefix + datatype, type, dims }));
    const nodes = kinds.map(({ datatype }) => ({
      op: "Identity",
      inputs: [`x${datatype}`],
      outputs: [`y${datatype}`],
    }));
    mkdirSync(path.join(folder, "models", name, "1"), { recursive: true });
    writeFileSync(path.join(folder, "models", name, "rubato.yaml"), "slo_ms: 10000\ngroup: cpu\n");
    const model = buildOnnx({ inputs: tensors("x"), outputs: tensors("y"), nodes });
    writeFileSync(path.join(folder, "models", name, "1", "model.onnx"), model);
  };
  for (const [name, kinds] of [
    ["raw", KINDS],
    ["typed", TYPED],
  ] as const) {
    put(`${name}-rows`, kinds, ["batch", "n"]);
    put(`${name}-scalars`, kinds, []);
  }
  put(
    "bits",
    KINDS.filter(({ datatype }) => datatype === "BOOL"),
    ["batch", "n"],
  );
  const text = `
http: { port: 0 }
grpc: { port: 1 }
groups: { cpu: { kind: onnx, count: 1, threads: 1 } }
workers: { warm_up_ms: 0 }
profile: { budget_s: 0.2 }
log: { level: silent }
`;
  running = await serveIn(folder, text);
  client = new GRPCInferenceServiceClient(running.grpcTarget!, credentials.createInsecure());
}, 60_000);
afterAll(async () => {
  client.close();
  await running.stop(0);
  rmSync(folder, { recursive: true, force: true });
});

interface Asked {
  readonly model: string;
  readonly shape: readonly number[];
  readonly kinds: readonly Kind[];
  readonly sent: Values;
}
const heads = ({ kinds, shape }: Asked) => kinds.map(({ datatype }) => ({ name: `x${datatype}`, datatype, shape }));
const outputs = ({ kinds }: Asked) => kinds.map(({ datatype }) => ({ name: `y${datatype}` }));

async function post(
  model: string,
  body: string | Buffer,
  headers: Record<string, string> = {},
): Promise<[Buffer, number]> {
  const reply = await fetch(`${running.httpUrl}/v2/models/${model}/infer`, { method: "POST", body, headers });
  const bytes = Buffer.from(await reply.arrayBuffer());
  expect(reply.status, bytes.toString()).toBe(200);
  return [bytes, Number(reply.headers.get("inference-header-content-length") ?? bytes.length)];
}

/** The bytes of each output, as sent to this door in this form. */
const WAYS: Readonly<Record<string, (asked: Asked) => Promise<readonly Buffer[]>>> = {
  "http binary": async (asked) => {
    const data = asked.kinds.map((kind) => toBytes(kind, asked.sent.get(kind)!));
    const inputs = heads(asked).map((head, i) => ({ ...head, parameters: { binary_data_size: data[i]!.length } }));
    const message = { inputs, outputs: outputs(asked), parameters: { binary_data_output: true } };
    const { body, headers } = binaryBody(message, ...data);
    const [bytes, end] = await post(asked.model, body, headers as Record<string, string>);
    let at = end;
    const { outputs: answers } = JSON.parse(bytes.subarray(0, end).toString()) as {
      outputs: { parameters: { binary_data_size: number } }[];
    };
    return answers.map(({ parameters: { binary_data_size: size } }) => {
      at += size;
      return bytes.subarray(at - size, at);
    });
  },
  "http json": async (asked) => {
    const inputs = heads(asked).map((head, i) => {
      const kind = asked.kinds[i]!;
      const data = asked.sent.get(kind)!.map((bytes) => jsonText(toValue(kind, bytes)));
      return `{"data":[${data.join()}],${JSON.stringify(head).slice(1)}`;
    });
    const message = `{"inputs":[${inputs.join()}],"outputs":${JSON.stringify(outputs(asked))}}`;
    const [bytes] = await post(asked.model, message);
    const answer = parseLossless(bytes.toString()) as { outputs: { data: unknown[] }[] };
    return answer.outputs.map(({ data }, i) => {
      const kind = asked.kinds[i]!;
      return toBytes(
        kind,
        data.map((value) => fromValue(kind, value)),
      );
    });
  },
  "grpc raw": async (asked) => {
    const raw = asked.kinds.map((kind) => toBytes(kind, asked.sent.get(kind)!));
    const reply = await grpc(asked, { rawInputContents: raw });
    return reply.rawOutputContents.map((bytes) => Buffer.from(bytes));
  },
  "grpc typed": async (asked) => {
    const inputs = heads(asked).map((head, i) => {
      const kind = asked.kinds[i]!;
      const elements = asked.sent.get(kind)!;
      return {
        ...head,
        shape: head.shape.map(BigInt),
        contents: { [kind.contents!]: kind.size === 0 ? elements : elements.map((bytes) => toValue(kind, bytes)) },
      };
    });
    const reply = await grpc(asked, { inputs });
    return reply.outputs.map(({ contents }, i) => {
      const kind = asked.kinds[i]!;
      const list = (contents as unknown as Record<string, unknown[]>)[kind.contents!]!;
      return toBytes(
        kind,
        list.map((value) => (kind.size === 0 ? Buffer.from(value as Buffer) : fromValue(kind, value))),
      );
    });
  },
};

async function grpc(asked: Asked, more: object): Promise<ModelInferResponse> {
  const inputs = heads(asked).map((head) => ({ ...head, shape: head.shape.map(BigInt) }));
  const message = { modelName: asked.model, inputs, outputs: outputs(asked), ...more };
  const request = ModelInferRequest.fromPartial(message as object);
  const { error, response } = await unary<ModelInferRequest, ModelInferResponse>(client.modelInfer, client, request);
  if (error !== null) throw error;
  return response;
}

/** What a way cannot carry by its nature is replaced by 0: in JSON NaN and infinities, in JavaScript's numbers what kind of NaN. */
function fitFor(way: string, kind: Kind, elements: Elements): Elements {
  const isLost = (bytes: Buffer): boolean => {
    if (!isFloat(kind)) return false;
    const value = toValue(kind, bytes) as number;
    return way === "http json" ? !Number.isFinite(value) : way === "grpc typed" && Number.isNaN(value);
  };
  return elements.map((bytes) => (isLost(bytes) ? Buffer.alloc(kind.size) : bytes));
}

async function expectSame(way: string, what: "rows" | "scalars", shape: readonly number[], all: Values): Promise<void> {
  const isRaw = way === "http binary" || way === "grpc raw";
  const kinds = isRaw ? KINDS : TYPED;
  const sent = new Map(kinds.map((kind) => [kind, fitFor(way, kind, all.get(kind)!)]));
  const got = await WAYS[way]!({ model: `${isRaw ? "raw" : "typed"}-${what}`, shape, kinds, sent });
  expect(kinds.map(({ datatype }, i) => [datatype, got[i]!.toString("hex")])).toEqual(
    kinds.map((kind) => [kind.datatype, toBytes(kind, sent.get(kind)!).toString("hex")]),
  );
}

test.each(Object.keys(WAYS))(
  `values: %s, alone and in a batch (seed ${SEED})`,
  async (way) => {
    const cases = fc
      .record({ rows: fc.integer({ min: 1, max: 3 }), columns: fc.integer({ min: 0, max: 4 }) })
      .chain(({ rows, columns }) =>
        fc.tuple(fc.constant([rows, columns]), values(rows * columns), values(rows * columns)),
      );
    await fc.assert(
      fc.asyncProperty(cases, async ([shape, one, other]) => {
        await Promise.all([one, other, one].map((sent) => expectSame(way, "rows", shape, sent)));
      }),
      { seed: SEED, numRuns: 25 },
    );
    await fc.assert(
      fc.asyncProperty(values(1), (sent) => expectSame(way, "scalars", [], sent)),
      { seed: SEED, numRuns: 5 },
    );
  },
  60_000,
);

test("values: a large input is looked at between other requests, and refused or served after them", async () => {
  const bytes = 3 * SLICE_BYTES;
  const call = (data: Uint8Array) => {
    const input = { name: "xBOOL", datatype: "BOOL", shape: [1, bytes], parameters: { binary_data_size: bytes } };
    const { body, headers } = binaryBody({ inputs: [input], parameters: { binary_data_output: true } }, data);
    return { method: "POST", body, headers: headers as Record<string, string> };
  };
  const url = `${running.httpUrl}/v2/models/bits/infer`;
  const good = Buffer.alloc(bytes, 1);
  const served = await fetch(url, call(good));
  expect(
    Buffer.from(await served.arrayBuffer())
      .subarray(-bytes)
      .equals(good),
  ).toBe(true);
  good[bytes - 1] = 2;
  const refused = await fetch(url, call(good));
  expect([refused.status, await refused.json()]).toEqual([
    400,
    expect.objectContaining({ error: expect.stringContaining(`element ${bytes - 1} must be 0 or 1`) }),
  ]);
  // The gateway itself: nothing is called before it has looked at the rest, and never once it was cancelled.
  const ends: string[] = [];
  const infer = (end: string, data: Uint8Array) =>
    running.server.infer(
      {
        model: "bits",
        version: "",
        id: "",
        inputs: [{ name: "xBOOL", datatype: "BOOL", shape: [1, bytes], data }],
        outputs: [],
        receivedAt: monotonicNow(),
        timeoutUs: null,
        transportDeadlineAt: null,
        parameters: {},
        traceparent: null,
        byteLength: bytes,
      },
      { onReply: () => ends.push(`${end} served`), onError: ({ code }) => ends.push(`${end} ${code}`) },
    );
  infer("cancelled", good)();
  infer("wrong", good);
  infer("right", Buffer.alloc(bytes));
  expect(ends).toEqual([]);
  await until(() => ends.length === 2, "both answered");
  expect(ends).toEqual(["wrong invalid-argument", "right served"]);
});
