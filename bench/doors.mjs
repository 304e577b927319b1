// What does a door add to an echo? Round trips of one keep-alive connection and CPU per request, against bare echoes of the
// same bytes (node:http, fastify, grpc-js), each server in its own process, rounds interleaved in one run.
//
// For: the cost of routing, parsing and answering one binary inference of 1 KB or 64 KB. The doors' echo decodes the
// request, builds the call and encodes the reply; the bare ones send back what they read (over gRPC: what fits the reply).
// Not for: capacity (the client shares the machine), scheduling, large bodies.
//
// node bench/doors.mjs [--requests N] [--json]     needs `npm run build`
import { fork } from "node:child_process";
import { createHash } from "node:crypto";
import http from "node:http";
import net from "node:net";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";

const self = fileURLToPath(import.meta.url);
const VARIANTS = ["node:http", "fastify", "http door", "grpc-js", "grpc door"];
const METHOD = "/inference.GRPCInferenceService/ModelInfer";
const SIZES = [1024, 65536];

const spec = {
  name: "echo",
  version: "1",
  versions: ["1"],
  platform: "onnx_onnxv1",
  inputs: [{ name: "x", datatype: "FP32", shape: [-1], batchAxis: null, variable: null, optional: false }],
  outputs: [{ name: "y", datatype: "FP32", shape: [-1], batchAxis: null, variable: null, optional: false }],
  batchSizeMax: 0,
};

/** Answers with its input at once: what is left is the door. */
const gateway = {
  live: true,
  ready: true,
  model: () => spec,
  infer(call, handler) {
    const [input] = call.inputs;
    handler.onReply({ model: "echo", version: "1", parameters: {}, outputs: [{ ...input, name: "y" }] });
    return () => {};
  },
};

async function serve(variant) {
  let port;
  if (variant === "grpc door") {
    const { createGrpcDoor } = await import("../dist/serve/grpc/door.js");
    port = (await createGrpcDoor(gateway, { port: 0, version: "0" })).port;
  } else if (variant === "grpc-js") {
    const { Server, ServerCredentials } = await import("@grpc/grpc-js");
    const server = new Server({ "grpc.max_receive_message_length": -1 });
    const same = (bytes) => bytes;
    const infer = {
      path: METHOD,
      requestStream: false,
      responseStream: false,
      requestSerialize: same,
      requestDeserialize: same,
      responseSerialize: same,
      responseDeserialize: same,
    };
    server.addService({ infer }, { infer: (call, callback) => callback(null, call.request) });
    port = await new Promise((resolve, reject) =>
      server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
  } else if (variant === "http door") {
    const { createHttpDoor } = await import("../dist/serve/http/door.js");
    port = (await createHttpDoor(gateway, { port: 0, version: "0" })).port;
  } else if (variant === "fastify") {
    const { default: fastify } = await import("fastify");
    const app = fastify();
    app.removeAllContentTypeParsers();
    app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
    app.post("/v2/models/echo/infer", (request, reply) => reply.send(request.body));
    await app.listen({ port: 0, host: "127.0.0.1" });
    port = app.server.address().port;
  } else {
    const server = http.createServer((request, response) => {
      const pieces = [];
      request.on("data", (piece) => pieces.push(piece));
      request.on("end", () => {
        const body = Buffer.concat(pieces);
        response.writeHead(200, { "content-length": body.length });
        response.end(body);
      });
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    port = server.address().port;
  }
  process.on("message", () => {
    const { user, system } = process.cpuUsage();
    process.send({ cpuUs: user + system });
  });
  process.send({ port });
}

/** A ModelInferRequest of the same tensor, raw. */
async function message(size) {
  const { ModelInferRequest } = await import("../dist/wire/proto/inference.js");
  return Buffer.from(
    ModelInferRequest.encode(
      ModelInferRequest.fromPartial({
        modelName: "echo",
        id: "1",
        inputs: [{ name: "x", datatype: "FP32", shape: [BigInt(size / 4)] }],
        rawInputContents: [request(size).tensor],
      }),
    ).finish(),
  );
}

async function connectGrpc(port) {
  const { Client, credentials } = await import("@grpc/grpc-js");
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  const same = (bytes) => bytes;
  return (bytes) =>
    new Promise((resolve, reject) =>
      client.makeUnaryRequest(METHOD, same, same, bytes, (error, reply) => (error ? reject(error) : resolve(reply))),
    );
}

function request(size) {
  const json = JSON.stringify({
    id: "1",
    inputs: [{ name: "x", datatype: "FP32", shape: [size / 4], parameters: { binary_data_size: size } }],
    outputs: [{ name: "y", parameters: { binary_data: true } }],
  });
  const tensor = Buffer.alloc(size, 7);
  const head = `POST /v2/models/echo/infer HTTP/1.1\r\nHost: bench\r\nContent-Type: application/octet-stream\r\nInference-Header-Content-Length: ${json.length}\r\nContent-Length: ${json.length + size}\r\n\r\n`;
  return { bytes: Buffer.concat([Buffer.from(head + json), tensor]), tensor };
}

/** One connection, one request at a time. */
async function connect(port) {
  const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
  await new Promise((resolve) => socket.once("connect", resolve));
  return (bytes) =>
    new Promise((resolve) => {
      let got = Buffer.alloc(0);
      let total = -1;
      const onData = (piece) => {
        got = got.length === 0 ? piece : Buffer.concat([got, piece]);
        if (total < 0) {
          const end = got.indexOf("\r\n\r\n");
          if (end < 0) return;
          total = end + 4 + Number(/content-length: (\d+)/i.exec(got.toString("latin1", 0, end))[1]);
        }
        if (got.length < total) return;
        socket.off("data", onData);
        resolve(got);
      };
      socket.on("data", onData);
      socket.write(bytes);
    });
}

function cpuUs(child) {
  return new Promise((resolve) => {
    child.once("message", (message) => resolve(message.cpuUs));
    child.send("cpu");
  });
}

async function main() {
  const flag = process.argv.indexOf("--requests");
  const requests = flag < 0 ? 4000 : Number(process.argv[flag + 1]);
  const rounds = 8;
  const servers = [];
  for (const variant of VARIANTS) {
    const child = fork(self, ["--serve", variant], { stdio: ["ignore", 2, 2, "ipc"] });
    const { port } = await new Promise((resolve) => child.once("message", resolve));
    const isGrpc = variant.startsWith("grpc");
    servers.push({ variant, child, isGrpc, ask: await (isGrpc ? connectGrpc(port) : connect(port)) });
  }
  const rows = [];
  for (const size of SIZES) {
    const { bytes, tensor } = request(size);
    const proto = await message(size);
    const results = servers.map(({ variant }) => ({ variant, times: [], cpu: 0, count: 0 }));
    for (let round = -1; round < rounds; round++)
      for (const [index, { child, isGrpc, ask }] of servers.entries()) {
        const cpuBefore = await cpuUs(child);
        let last;
        const per = Math.ceil(requests / rounds);
        for (let i = 0; i < per; i++) {
          const start = performance.now();
          last = await ask(isGrpc ? proto : bytes);
          if (round >= 0) results[index].times.push((performance.now() - start) * 1000);
        }
        if (!last.subarray(-size).equals(tensor)) throw new Error(`${servers[index].variant}: a wrong answer`);
        if (round < 0) continue; // warm-up
        results[index].cpu += (await cpuUs(child)) - cpuBefore;
        results[index].count += per;
      }
    for (const { variant, times, cpu, count } of results) {
      times.sort((a, b) => a - b);
      const at = (q) => Math.round(times[Math.floor(q * times.length)] * 10) / 10;
      rows.push({
        bytes: size,
        variant,
        p50_us: at(0.5),
        p99_us: at(0.99),
        cpu_us: Math.round((cpu / count) * 10) / 10,
      });
    }
  }
  for (const { child } of servers) child.kill();
  const ratio = (size, a, b, key) => {
    const of = (variant) => rows.find((row) => row.bytes === size && row.variant === variant)[key];
    return Math.round((of(a) / of(b)) * 100) / 100;
  };
  const pairs = [
    ["http door", "node:http"],
    ["http door", "fastify"],
    ["grpc door", "grpc-js"],
  ];
  const ratios = SIZES.flatMap((size) =>
    pairs.map(([door, bare]) => ({
      bytes: size,
      door,
      bare,
      p50: ratio(size, door, bare, "p50_us"),
      cpu: ratio(size, door, bare, "cpu_us"),
    })),
  );
  const digest = createHash("sha256")
    .update(SIZES.map((size) => request(size).bytes.toString("hex")).join())
    .digest("hex");
  if (process.argv.includes("--json")) console.log(JSON.stringify({ rows, ratios, digest: digest.slice(0, 16) }));
  else {
    console.table(rows);
    console.table(ratios);
    console.log(`digest of the requests: ${digest.slice(0, 16)}`);
  }
  process.exit(0);
}

if (process.argv[2] === "--serve") await serve(process.argv[3]);
else await main();
