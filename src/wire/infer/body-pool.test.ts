/** The pool runs compiled code: `npm run build` comes first (npm test does it). */
import { afterEach, expect, test } from "vitest";
import { monotonicNow } from "../clock/monotonic-clock.js";
import { ServingError } from "../serving-error.js";
import { BodyPool } from "./body-pool.js";

let pool: BodyPool;
afterEach(() => pool.close());

/** Parsed for some tens of milliseconds at the least. */
const slow = (): Uint8Array => json(new Array(600_000).fill(0));
const json = (data: unknown) =>
  new TextEncoder().encode(JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [2], data }] }));
const decode = (body: Uint8Array): Promise<ServingError | Uint8Array> =>
  new Promise((resolve) => pool.decode(body, null, (error, value) => resolve(error ?? value!.inputs[0]!.data)));

test("body-pool: decodes, refuses with the same errors, and takes the body over", async () => {
  pool = new BodyPool({ threads: 2 });
  const body = json([1, 2]);
  const [good, bad] = await Promise.all([decode(body), decode(json([1]))]);
  expect(good).toEqual(new Uint8Array(new Float32Array([1, 2]).buffer));
  expect(body.byteLength).toBe(0);
  expect(bad).toBeInstanceOf(ServingError);
  expect(bad).toMatchObject({ code: "invalid-argument", message: expect.stringContaining("got 1") });
});

test("body-pool: the thread that was started before takes the first body", async () => {
  pool = new BodyPool({ threads: 2 });
  expect(pool.started).toBe(0);
  pool.warm();
  pool.warm();
  expect(pool.started).toBe(1);
  expect(await decode(json([1, 2]))).toBeInstanceOf(Uint8Array);
  expect(pool.started).toBe(1);
});

test("body-pool: its queue is bounded in jobs and in bytes, and recovers", async () => {
  pool = new BodyPool({ threads: 1, jobsMax: 2, bytesMax: 1000 });
  const results = await Promise.all([decode(json([1, 2])), decode(json([1, 2])), decode(json([1, 2]))]);
  expect(results[2]).toMatchObject({
    code: "resource-exhausted",
    details: { reason: "parse-queue-full", retryAfterS: 1 },
  });
  const large = await Promise.all([decode(json([1, 2])), decode(json(Array(1000).fill(1)))]);
  expect(large[1]).toMatchObject({ code: "resource-exhausted", message: expect.stringContaining("1000 bytes") });
  expect(await decode(json([1, 2]))).toBeInstanceOf(Uint8Array);
});

test("body-pool: closing answers what is pending, once", async () => {
  pool = new BodyPool();
  const pending = decode(json([1, 2]));
  await pool.close();
  expect(await pending).toMatchObject({ code: "unavailable", details: { reason: "draining" } });
  expect(await decode(json([1, 2]))).toMatchObject({ code: "unavailable" });
});

/** Resolves with what was settled, in words; `order` gets the name then. */
function ordered(order: string[], name: string, body: Uint8Array, expiresAt?: number): () => void {
  return pool.decode(
    body,
    null,
    (error) => {
      order.push(error === null || error.code === "invalid-argument" ? name : `${name} ${error.details.reason}`);
    },
    expiresAt,
  );
}
const until = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
};
const inMs = (ms: number): number => monotonicNow() + ms * 1000;

test("body-pool: what waits is taken by deadline, not as it came", async () => {
  pool = new BodyPool({ threads: 1 });
  const order: string[] = [];
  ordered(order, "first", slow());
  ordered(order, "none", json([1, 2]));
  ordered(order, "late", json([1, 2]), inMs(60_000));
  ordered(order, "early", json([1, 2]), inMs(50_000));
  ordered(order, "late too", json([1, 2]), inMs(60_000));
  await until(() => order.length === 5);
  expect(order).toEqual(["first", "early", "late", "late too", "none"]);
});

test("body-pool: what is not parsed at its deadline is answered then, waiting or begun, and frees its place once", async () => {
  pool = new BodyPool({ threads: 1 });
  const order: string[] = [];
  ordered(order, "begun", slow(), inMs(1));
  ordered(order, "waiting", json([1, 2]), inMs(0));
  const jobs = pool.jobs;
  await until(() => order.length === 2);
  expect([jobs, [...order].sort()]).toEqual([2, ["begun expired", "waiting expired"]]);
  await until(() => pool.jobs === 0);
  expect(await decode(json([1, 2]))).toBeInstanceOf(Uint8Array);
  expect(order).toHaveLength(2);
});

test("body-pool: what is given up is not told, and not begun", async () => {
  pool = new BodyPool({ threads: 1, jobsMax: 2 });
  const order: string[] = [];
  const first = ordered(order, "first", slow());
  const second = ordered(order, "second", json([1, 2]));
  second();
  second();
  expect(pool.jobs).toBe(1);
  first();
  expect(await decode(json([1, 2]))).toBeInstanceOf(Uint8Array);
  expect([order, pool.jobs]).toEqual([[], 0]);
});

test("body-pool: a small body does not wait for large ones, whose queue is their own", async () => {
  pool = new BodyPool({ threads: 2, bytesMax: 7_000_000 });
  await decode(json([1, 2]));
  const order: string[] = [];
  const larges = ["a", "b", "c", "d", "e", "f"];
  for (const name of larges) ordered(order, name, slow());
  expect(order).toEqual(["f parse-queue-full"]);
  await decode(json([1, 2]));
  expect(order).not.toContain("e");
  await until(() => pool.jobs === 0);
  expect(order.slice(1)).toEqual(larges.slice(0, 5));
});

test("body-pool: a body of more work than its bounds is refused before it is parsed", async () => {
  pool = new BodyPool();
  const body = new TextEncoder().encode(`{"inputs":[${"{},".repeat(20_000)}1]}`);
  expect(await decode(body)).toMatchObject({ code: "invalid-argument", details: { reason: "json-too-complex" } });
});
