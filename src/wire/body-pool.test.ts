/** The pool runs compiled code: `npm run build` comes first (npm test does it). */
import { afterEach, expect, test } from "vitest";
import { BodyPool } from "./body-pool.js";
import { ServingError } from "./serving-error.js";

let pool: BodyPool;
afterEach(() => pool.close());

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
