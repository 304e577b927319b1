/** Against a server of this file, which answers as it is told: what is sent, and how what comes back is counted. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { LabelledImages } from "../serving/elastic/labelled-images.js";
import type { QueryType } from "./elastic-workload.js";
import { classifyAll, runLabelled, samplesOf } from "./labelled-load.js";

interface Asked {
  readonly task: string;
  readonly utility: number;
  readonly timeout: number;
  /** The image's first pixel is its number. */
  readonly image: number;
}

let server: Server;
let url: string;
let asked: Asked[];
let answer: (asked: Asked, response: ServerResponse) => void;
beforeEach(async () => {
  asked = [];
  server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v2/models/vit`;
});
afterEach(() => new Promise<void>((resolve) => server.close(() => resolve())));

async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = Buffer.concat(await request.toArray());
  const jsonBytes = Number(request.headers["inference-header-content-length"]);
  const { parameters } = JSON.parse(body.toString("utf8", 0, jsonBytes)) as { parameters: Omit<Asked, "image"> };
  const one = { ...parameters, image: Math.round(body.readFloatLE(jsonBytes) * 255) };
  asked.push(one);
  answer(one, response);
}

/** Logits of 3 classes. */
function classed(found: number, gamma: number, response: ServerResponse): void {
  const logits = Float32Array.from([0, 1, 2], (index) => (index === found ? 5 : index));
  const outputs = [{ name: "logits", datatype: "FP32", shape: [1, 3], parameters: { binary_data_size: 12 } }];
  const json = Buffer.from(JSON.stringify({ outputs, parameters: { gamma, binary_data_output: true } }));
  response.writeHead(200, { "inference-header-content-length": String(json.byteLength) });
  response.end(Buffer.concat([json, Buffer.from(logits.buffer)]));
}

function refused(status: number, reason: string, response: ServerResponse): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ error: `said ${reason}`, reason }));
}

const images: LabelledImages = {
  task: "shoes",
  labels: Uint8Array.from([0, 1, 2, 1]),
  pixels: (index) => Float32Array.of(index / 255),
};
const TYPES: readonly QueryType[] = [
  { task: "shoes", sloMs: 2000, utility: 1 },
  { task: "shoes", sloMs: 150, utility: 0.5 },
];
const send = (queries: readonly (readonly [atMs: number, type: number, image: number])[], countedFromUs = 0) =>
  runLabelled(
    url,
    TYPES.map((type) => samplesOf(images, type)),
    {
      types: TYPES,
      images: [images, images],
      best: [0.9, 0.45],
      queries: queries.map(([atMs, type, image]) => ({ atUs: atMs * 1000, type, image })),
      countedFromUs,
    },
  );

test("a query says its task, its utility and its SLO; right and in time it earns, late, wrong or dropped it does not", async () => {
  answer = ({ timeout, image }, response) => {
    if (image === 3) refused(503, "infeasible", response);
    // The short SLO has passed by then.
    else if (timeout === 150_000) setTimeout(() => classed(image, -8, response), 300);
    else classed(image === 2 ? 0 : image, 4, response);
  };
  const counts = await send(
    [
      [0, 0, 0],
      [5, 0, 1],
      [10, 0, 2],
      [15, 0, 3],
      [20, 1, 1],
    ],
    1000,
  );
  expect(asked).toContainEqual({ task: "shoes", utility: 0.5, timeout: 150_000, binary_data_output: true, image: 1 });
  expect(counts).toMatchObject({
    arrived: 4,
    in_time: 2,
    right: 1,
    late: 1,
    dropped: 1,
    offered: 3.5,
    earned: 1,
    gammas: { "-8": 1, "4": 2 },
  });
  expect(counts.ceiling).toBeCloseTo(3.15, 9);
  expect(counts.types.map(({ arrived }) => arrived)).toEqual([3, 1]);
});

test("what is no policy's choice voids the run, by name", async () => {
  answer = ({ image }, response) =>
    image === 0 ? refused(429, "queue-full", response) : refused(400, "task", response);
  const { void_reason, arrived } = await send([
    [0, 0, 0],
    [1, 0, 1],
    [2, 0, 1],
  ]);
  expect(arrived).toBe(0);
  expect(void_reason).toContain("1 queue-full");
  expect(void_reason).toContain("2 rejected (said task)");
});

test("every image is classified once, or what was answered in place of that is said", async () => {
  answer = ({ image }, response) => (image === 2 ? refused(504, "late", response) : classed(image % 2, -4, response));
  const found = await classifyAll(url, images, TYPES[0]!, 2);
  expect(found).toEqual([{ found: 0, gamma: -4 }, { found: 1, gamma: -4 }, "504: said late", { found: 1, gamma: -4 }]);
  expect(asked).toHaveLength(4);
});
