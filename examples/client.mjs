// A small client of the Open Inference Protocol: the same `infer` over HTTP (plain fetch, binary tensors) and gRPC.
//
//   const client = await connect(optionsFromArguments("mine.mjs [flags]"));
//   const { outputs, ms } = await client.infer("embedder", [tensor("input_ids", "INT64", [1, 7], ids), ...], { timeoutMs: 50 });
//
// A server that cannot answer in time says so at once; that is thrown as `Refused`, with its reason and its estimate.
import { parseArgs } from "node:util";

const ARRAYS = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  INT8: Int8Array,
  UINT16: Uint16Array,
  INT16: Int16Array,
  UINT32: Uint32Array,
  INT32: Int32Array,
  UINT64: BigUint64Array,
  INT64: BigInt64Array,
  FP32: Float32Array,
  FP64: Float64Array,
};
const MESSAGE_BYTES_MAX = 64 * 1024 * 1024;
// The gRPC deadline travels as `timeout` as well; the client's own watch only guards against a lost connection.
const GRACE_MS = 1000;

/** The server answered that it will not or cannot do this. */
export class Refused extends Error {
  constructor(status, message, { reason, estimateUs, deadlineUs, retryAfterS } = {}) {
    super(message);
    this.name = "Refused";
    /** "504" over HTTP, "DEADLINE_EXCEEDED" over gRPC. */
    this.status = status;
    this.reason = reason;
    this.estimateUs = estimateUs;
    this.deadlineUs = deadlineUs;
    this.retryAfterS = retryAfterS;
  }

  describe() {
    const parts = [`${this.status}`, this.reason && `reason ${this.reason}`, this.message];
    if (this.estimateUs !== undefined) parts.push(`would take ${ms(this.estimateUs)} ms`);
    if (this.deadlineUs !== undefined) parts.push(`deadline ${ms(this.deadlineUs)} ms`);
    if (this.retryAfterS !== undefined) parts.push(`try again in ${this.retryAfterS} s`);
    return parts.filter(Boolean).join("; ");
  }
}
const ms = (us) => (us / 1000).toFixed(us < 10_000 ? 2 : 0);

/** @param data typed array of the datatype, row-major, as long as the product of `shape`; of BYTES an array of text or Uint8Array. */
export function tensor(name, datatype, shape, data) {
  if (datatype === "BYTES") return { name, datatype, shape, data: packed(data) };
  const Type = ARRAYS[datatype];
  if (Type === undefined) throw new TypeError(`tensor '${name}': datatype ${datatype} is not one of this client's`);
  if (!(data instanceof Type)) throw new TypeError(`tensor '${name}': ${datatype} needs a ${Type.name}`);
  const count = shape.reduce((product, extent) => product * extent, 1);
  if (data.length !== count)
    throw new RangeError(`tensor '${name}': shape [${shape}] holds ${count} elements, data has ${data.length}`);
  return { name, datatype, shape, data };
}

/** Elements of BYTES, a length of four bytes before each. */
function packed(elements) {
  return Buffer.concat(
    elements.flatMap((element) => {
      const bytes = Buffer.from(element);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.length);
      return [length, bytes];
    }),
  );
}

/** The same taken apart, as text. */
function texts(bytes) {
  const elements = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 4 + bytes.readUInt32LE(at);
    elements.push(bytes.toString("utf8", at + 4, end));
    at = end;
  }
  return elements;
}

const HELP = `  --http URL        where the HTTP door is (default http://127.0.0.1:8000)
  --grpc HOST:PORT  where the gRPC door is (default 127.0.0.1:8001)
  --protocol NAME   http or grpc (default http)
  --timeout-ms MS   the deadline of each request
  --help            this`;

/**
 * Flags that every example takes.
 *
 * @param usage what the example takes beside them, for --help.
 * @param more flags of its own, as `parseArgs` has them.
 * @param check given all values, answers what the example goes by; what it throws is said, with status 2.
 */
export function optionsFromArguments(usage, more = {}, check = (values) => values) {
  const options = {
    http: { type: "string", default: "http://127.0.0.1:8000" },
    grpc: { type: "string", default: "127.0.0.1:8001" },
    protocol: { type: "string", default: "http" },
    "timeout-ms": { type: "string" },
    ...more,
  };
  return readFlags(`usage: node examples/${usage}\n\n${HELP}`, options, (values, positionals) => {
    if (!["http", "grpc"].includes(values.protocol))
      throw new RangeError(`--protocol must be http or grpc; was ${values.protocol}`);
    const timeout = values["timeout-ms"];
    if (timeout !== undefined && !(Number(timeout) > 0))
      throw new RangeError(`--timeout-ms must be a number above 0; was ${timeout}`);
    if (!/^https?:\/\/[^/]/.test(values.http))
      throw new RangeError(`--http must be http://HOST:PORT; was ${values.http}`);
    if (!/^[^/]+:\d+$/.test(values.grpc)) throw new RangeError(`--grpc must be HOST:PORT; was ${values.grpc}`);
    return check({ ...values, positionals, timeoutMs: timeout === undefined ? undefined : Number(timeout) });
  });
}

/**
 * What `check` makes of the flags; where it throws, or a flag is unknown, one line is said and the status is 2.
 *
 * @param help what --help prints.
 */
export function readFlags(help, options, check) {
  const all = { ...options, help: { type: "boolean", default: false } };
  try {
    const { values, positionals } = parseArgs({ options: all, allowPositionals: true });
    if (values.help) {
      console.log(help);
      process.exit(0);
    }
    return check(values, positionals);
  } catch (error) {
    const flags = Object.keys(all).map((name) => `--${name}`);
    const isUnknown = error.code === "ERR_PARSE_ARGS_UNKNOWN_OPTION";
    console.error(isUnknown ? `${error.message.split(". ")[0]}: it must be one of ${flags.join(", ")}` : error.message);
    process.exit(2);
  }
}

/** A flag's value as a number. @throws RangeError naming flag, bound and value. */
export function wholeNumber(flag, value, low, high) {
  const number = /^-?\d+$/.test(value.trim()) ? Number(value) : Number.NaN;
  if (number >= low && number <= high) return number;
  throw new RangeError(`--${flag} must be a whole number in [${low}, ${high}]; was ${value}`);
}

/** @returns {Promise<{infer: Function, close: () => void, name: string}>} */
export async function connect({ protocol = "http", http, grpc }) {
  return protocol === "grpc" ? connectGrpc(grpc) : connectHttp(http);
}

export function connectHttp(base) {
  return {
    name: `HTTP ${base}`,
    async infer(model, inputs, { timeoutMs, parameters = {}, outputs } = {}) {
      const message = httpMessage(inputs, {
        parameters: { ...withTimeout(parameters, timeoutMs), binary_data_output: true },
        ...(outputs && { outputs: outputs.map((name) => ({ name })) }),
      });
      const startedAt = performance.now();
      const response = await fetchFrom(`${base}/v2/models/${encodeURIComponent(model)}/infer`, {
        method: "POST",
        ...message,
        signal: timeoutMs === undefined ? undefined : AbortSignal.timeout(Math.ceil(timeoutMs) + GRACE_MS),
      });
      const body = Buffer.from(await response.arrayBuffer());
      const elapsed = performance.now() - startedAt;
      if (!response.ok) throw refusedByHttp(response, body);
      return { ...fromHttp(response, body), ms: elapsed };
    },
    close() {},
  };
}

async function fetchFrom(url, init) {
  try {
    return await fetch(url, init);
  } catch (error) {
    throw error.cause?.code === "ECONNREFUSED" ? unreachable(new URL(url).origin, error.cause.message) : error;
  }
}

/** Headers and body: JSON, then the tensors' bytes. @param more members of the JSON beside its inputs. */
export function httpMessage(inputs, more) {
  const json = Buffer.from(
    JSON.stringify({
      ...more,
      inputs: inputs.map(({ name, datatype, shape, data }) => ({
        name,
        datatype,
        shape,
        parameters: { binary_data_size: data.byteLength },
      })),
    }),
  );
  return {
    headers: { "content-type": "application/octet-stream", "inference-header-content-length": `${json.length}` },
    body: Buffer.concat([json, ...inputs.map(({ data }) => bytesOf(data))]),
  };
}

/** Another of the server's paths: its answer's JSON. @throws Refused */
export async function askHttp(url, init) {
  const response = await fetchFrom(url, init);
  const body = Buffer.from(await response.arrayBuffer());
  if (!response.ok) throw refusedByHttp(response, body);
  return JSON.parse(body.toString());
}

function fromHttp(response, body) {
  const length = Number(response.headers.get("inference-header-content-length") ?? body.length);
  const answer = JSON.parse(body.subarray(0, length).toString());
  let at = length;
  const outputs = {};
  for (const { name, datatype, shape, parameters, data } of answer.outputs) {
    const size = parameters?.binary_data_size;
    if (size === undefined) outputs[name] = { datatype, shape, data: ARRAYS[datatype].from(data.flat(Infinity)) };
    else {
      outputs[name] = { datatype, shape, data: typed(datatype, body.subarray(at, at + size)) };
      at += size;
    }
  }
  return { outputs, parameters: answer.parameters ?? {} };
}

function refusedByHttp(response, body) {
  let answer = {};
  try {
    answer = JSON.parse(body.toString());
  } catch {
    answer.error = body.toString().slice(0, 200);
  }
  const retryAfter = response.headers.get("retry-after");
  return new Refused(`${response.status}`, answer.error ?? response.statusText, {
    reason: answer.reason,
    estimateUs: answer.estimate_us,
    deadlineUs: answer.deadline_us,
    retryAfterS: retryAfter === null ? undefined : Number(retryAfter),
  });
}

/** Needs the built project (`npm start` or `npm run build`) for the code generated from src/wire/proto/inference.proto. */
export async function connectGrpc(address) {
  const { credentials, status } = await import("@grpc/grpc-js");
  const { GRPCInferenceServiceClient, ModelInferRequest } = await import("../dist/wire/proto/inference.js");
  const codes = Object.fromEntries(Object.entries(status).map(([name, code]) => [code, name]));
  const client = new GRPCInferenceServiceClient(address, credentials.createInsecure(), {
    "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
    "grpc.max_send_message_length": MESSAGE_BYTES_MAX,
  });
  return {
    name: `gRPC ${address}`,
    infer(model, inputs, { timeoutMs, parameters = {}, outputs = [] } = {}) {
      const request = ModelInferRequest.fromPartial({
        modelName: model,
        parameters: mapValues(withTimeout(parameters, timeoutMs), grpcParameter),
        inputs: inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape: shape.map(BigInt) })),
        outputs: outputs.map((name) => ({ name })),
        rawInputContents: inputs.map(({ data }) => bytesOf(data)),
      });
      const options = timeoutMs === undefined ? {} : { deadline: new Date(Date.now() + timeoutMs + GRACE_MS) };
      const startedAt = performance.now();
      return new Promise((resolve, reject) => {
        client.modelInfer(request, options, (error, response) => {
          if (error)
            reject(isUnreachable(error, status) ? unreachable(address, error.details) : refusedByGrpc(error, codes));
          else resolve({ ...fromGrpc(response), ms: performance.now() - startedAt });
        });
      });
    },
    close: () => client.close(),
  };
}

function fromGrpc(response) {
  const outputs = {};
  response.outputs.forEach(({ name, datatype, shape }, i) => {
    outputs[name] = { datatype, shape: shape.map(Number), data: typed(datatype, response.rawOutputContents[i]) };
  });
  return { outputs, parameters: mapValues(response.parameters, (p) => p.parameterChoice?.value) };
}

/** No answer of the server: there is none at that address, or it speaks something else. The server's own have a reason. */
function isUnreachable({ code, metadata }, status) {
  return [status.UNAVAILABLE, status.UNIMPLEMENTED].includes(code) && metadata?.get("rubato-reason").length === 0;
}

const unreachable = (where, said) =>
  new Error(`no such server at ${where} (\`npm start\` starts one, --http and --grpc name another): ${said}`);

/** Reason and times travel in the trailing metadata. */
function refusedByGrpc(error, codes) {
  const text = (name) => error.metadata?.get(name)[0]?.toString();
  const number = (name) => (text(name) === undefined ? undefined : Number(text(name)));
  return new Refused(codes[error.code] ?? `${error.code}`, error.details, {
    reason: text("rubato-reason"),
    estimateUs: number("rubato-estimate-us"),
    deadlineUs: number("rubato-deadline-us"),
    retryAfterS: number("retry-after"),
  });
}

function grpcParameter(value) {
  if (typeof value === "boolean") return { parameterChoice: { $case: "boolParam", value } };
  if (typeof value === "string") return { parameterChoice: { $case: "stringParam", value } };
  if (Number.isInteger(value)) return { parameterChoice: { $case: "int64Param", value: BigInt(value) } };
  return { parameterChoice: { $case: "doubleParam", value } };
}

/** The deadline: whole microseconds from the moment the server reads the request's headers. */
function withTimeout(parameters, timeoutMs) {
  if (timeoutMs === undefined) return parameters;
  return { ...parameters, timeout: Math.max(1, Math.floor(timeoutMs * 1000)) };
}

const mapValues = (object, f) => Object.fromEntries(Object.entries(object).map(([key, value]) => [key, f(value)]));
const bytesOf = (data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength);

/** Copies: the bytes of a message need not lie where a typed array may begin. */
function typed(datatype, bytes) {
  if (datatype === "BYTES") return texts(Buffer.from(bytes));
  const Type = ARRAYS[datatype];
  if (Type === undefined) throw new TypeError(`datatype ${datatype} is not one of this client's`);
  return new Type(new Uint8Array(bytes).buffer, 0, bytes.length / Type.BYTES_PER_ELEMENT);
}

/** Asks for what cannot be done in time and prints the refusal; a server that is fast enough after all says so too. */
export async function showRefusal(client, model, inputs, timeoutMs) {
  const startedAt = performance.now();
  try {
    await client.infer(model, inputs, { timeoutMs });
    console.log(`within ${timeoutMs} ms: answered`);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    console.log(
      `within ${timeoutMs} ms: refused after ${(performance.now() - startedAt).toFixed(1)} ms: ${error.describe()}`,
    );
  }
}

/** Runs an example; a refusal or a server that is not there ends it with a sentence and status 1. */
export async function runExample(main) {
  // A reader that closes the pipe early (`... | head`) has what it wanted.
  process.stdout.on("error", (error) => process.exit(error.code === "EPIPE" ? 0 : 1));
  try {
    await main();
  } catch (error) {
    const refused =
      error instanceof Refused
        ? error.describe()
        : `${error.message}${error.cause ? ` (${error.cause.message || error.cause.code})` : ""}`;
    console.error(`failed: ${refused}`);
    process.exitCode = 1;
  }
}
