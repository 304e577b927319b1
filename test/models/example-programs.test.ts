/**
 * The example programs as a user runs them, against a hand-written server that runs the real models: it speaks just the
 * protocol that the programs use, and refuses what asks for less than 10 ms.
 */
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type InputTensor, inferDirectly, root } from "./direct-client.js";
import { runExample } from "./run-example.js";

const TIMEOUT_US_LEAST = 10_000;

interface Reply {
  readonly status: number;
  readonly json: object;
  readonly tensors?: readonly Uint8Array[];
}

async function answer(url: string, header: string | undefined, body: Buffer): Promise<Reply> {
  const model = /^\/v2\/models\/([a-z-]+)\/infer$/.exec(url)?.[1];
  if (model === undefined) return { status: 404, json: { error: `no route ${url}` } };
  const length = Number(header);
  const request = JSON.parse(body.subarray(0, length).toString());
  const deadlineUs: number = request.parameters.timeout;
  if (deadlineUs < TIMEOUT_US_LEAST) {
    const refusal = { error: "cannot be done in time", reason: "infeasible", estimate_us: 51_000 };
    return { status: 504, json: { ...refusal, deadline_us: deadlineUs } };
  }
  let at = length;
  const inputs: InputTensor[] = request.inputs.map(
    ({ parameters, ...input }: Omit<InputTensor, "data"> & { parameters: { binary_data_size: number } }) => {
      const bytes = new Uint8Array(body.subarray(at, at + parameters.binary_data_size)).buffer;
      at += parameters.binary_data_size;
      return { ...input, data: input.datatype === "INT64" ? new BigInt64Array(bytes) : new Float32Array(bytes) };
    },
  );
  const outputs = Object.entries((await inferDirectly(model, inputs)).outputs);
  const list = outputs.map(([name, { shape, data }]) => ({
    name,
    datatype: "FP32",
    shape,
    parameters: { binary_data_size: data.byteLength },
  }));
  const tensors = outputs.map(([, { data }]) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return { status: 200, json: { model_name: model, outputs: list }, tensors };
}

const server = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const header = request.headers["inference-header-content-length"] as string | undefined;
  const { status, json, tensors } = await answer(request.url!, header, Buffer.concat(chunks));
  const text = Buffer.from(JSON.stringify(json));
  response.statusCode = status;
  if (tensors) response.setHeader("inference-header-content-length", text.length);
  response.end(Buffer.concat([text, ...(tensors ?? [])]));
});
let address: string;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

// This server has no schedule: deadlines are only there to be sent.
const patient = (): string[] => ["--http", address, "--timeout-ms", "60000"];

it("embed.mjs prints the similarities of its sentences and the refusal", async () => {
  const { status, stdout, stderr } = await runExample("embed.mjs", ...patient());
  expect(stderr).toBe("");
  expect(status).toBe(0);
  expect(stdout).toMatch(/^1 {3}1\.00 {2}0\.7[5-7] /m);
  expect(stdout).toMatch(
    /within 1 ms: refused after .* ms: 504; reason infeasible; .*would take 51 ms; deadline 1\.00 ms/,
  );
});

it("find-speech.mjs prints the segments and the refusal", async () => {
  const { status, stdout, stderr } = await runExample("find-speech.mjs", ...patient());
  expect(stderr).toBe("");
  expect(status).toBe(0);
  expect(stdout.match(/^speech .* s to .* s$/gm)).toEqual([
    "speech 0.99 s to 2.72 s",
    "speech 3.87 s to 6.14 s",
    "speech 6.82 s to 7.97 s",
  ]);
  expect(stdout).toMatch(/272 frames, 0 refused/);
  expect(stdout).toMatch(/within 0\.05 ms: refused/);
});

it("without a server an example ends with status 1 and says where it looked, with a wrong flag with status 2", async () => {
  const closed = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => closed.once("listening", resolve));
  const { port } = closed.address() as AddressInfo;
  await new Promise((resolve) => closed.close(resolve));
  const nobody = await runExample("embed.mjs", "--http", `http://127.0.0.1:${port}`);
  expect(nobody.status).toBe(1);
  expect(nobody.stderr).toContain(`failed: no such server at http://127.0.0.1:${port} (`);
  expect(nobody.stderr).toContain(`connect ECONNREFUSED 127.0.0.1:${port}`);
  const wrong = await runExample("embed.mjs", "--timeout-ms", "-3");
  expect(wrong).toMatchObject({ status: 2, stdout: "" });
  expect(wrong.stderr).toMatch(/timeout-ms/);
});

it("an example whose reader has left ends quietly", async () => {
  const child = spawn(process.execPath, [path.join(root, "examples", "embed.mjs"), ...patient()]);
  let stderr = "";
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  // The reader is gone before the first line, as `head -0` is.
  child.stdout.destroy();
  const status = await new Promise((resolve) => child.on("close", resolve));
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
});
