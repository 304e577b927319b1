import type { IncomingHttpHeaders } from "node:http";
import { Client, type Dispatcher, request } from "undici";
import { ServingError } from "../../wire/serving-error.js";
import {
  type Answer,
  answerDropped,
  answerFailed,
  answerOf,
  HTTP_OK,
  type LoadCause,
  readErrorBody,
} from "../answer.js";
import type { Sample } from "../inputs/inputs.js";
import { type ModelMetadata, parseMetadata } from "../inputs/metadata.js";
import { encodeHttpBody, type HttpBody } from "./http-body.js";
import type { AnswerBody, AnswerHandler, Sender, SenderOptions, Ticket } from "./sender.js";

/** Of an error body, this much is read for its reason. */
const ERROR_BYTES_MAX = 16 * 1024;

/**
 * HTTP/1.1 with keep-alive and one request at a time per connection.
 *
 * Idle connections are a stack of undici clients: the most recently used goes first, a new one opens only when all are
 * busy, so that a burst meets as many connections as it needs. (undici's Pool looks for a free one by a linear search
 * and, at its limit, queues: a hidden closed loop.)
 */
export class HttpSender implements Sender {
  readonly #options: SenderOptions;
  readonly #onAnswer: AnswerHandler;
  readonly #idle: Client[] = [];
  readonly #all: Client[] = [];
  #bodies: readonly HttpBody[] = [];

  constructor(options: SenderOptions, onAnswer: AnswerHandler) {
    this.#options = options;
    this.#onAnswer = onAnswer;
  }

  async metadata(): Promise<ModelMetadata> {
    const { target, encoding } = this.#options;
    const url = target.origin + target.path;
    const model = await getJson(url);
    if (encoding !== "auto") return parseMetadata(url, model, encoding === "binary");
    const server = (await getJson(`${target.origin}/v2`).catch(() => ({}))) as { extensions?: unknown };
    const extensions = Array.isArray(server.extensions) ? server.extensions : [];
    return parseMetadata(url, model, extensions.includes("binary_tensor_data"));
  }

  prepare(samples: readonly Sample[], metadata: ModelMetadata): void {
    this.#bodies = samples.map((sample) => encodeHttpBody(sample, this.#options.timeoutUs, metadata.hasBinaryData));
  }

  send(sample: number, ticket: Ticket): boolean {
    const client = this.#idle.pop() ?? this.#open();
    if (client === null) return false;
    const { headers, bytes } = this.#bodies[sample]!;
    const path = `${this.#options.target.path}/infer`;
    const exchange = new Exchange(this.#options.keepsBodies === true, (answer, kept) => {
      this.#idle.push(client);
      this.#onAnswer(ticket, answer, kept);
    });
    client.dispatch({ path, method: "POST", headers, body: bytes }, exchange);
    return true;
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((client) => client.destroy()));
  }

  #open(): Client | null {
    if (this.#all.length >= this.#options.outstandingMax) return null;
    const { clientTimeoutMs, responseBytesMax, target } = this.#options;
    const client = new Client(target.origin, {
      pipelining: 1,
      headersTimeout: clientTimeoutMs,
      bodyTimeout: clientTimeoutMs,
      connect: { timeout: clientTimeoutMs },
      keepAliveTimeout: 60_000,
      maxResponseSize: responseBytesMax,
    });
    this.#all.push(client);
    return client;
  }
}

/** One request's answer as it comes in. A success is counted; its body is kept where that is asked for. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #keepsBodies: boolean;
  readonly #done: (answer: Answer, body: AnswerBody | null) => void;
  #status = 0;
  #jsonBytes = Number.POSITIVE_INFINITY;
  #byteCount = 0;
  readonly #chunks: Buffer[] = [];

  constructor(keepsBodies: boolean, done: (answer: Answer, body: AnswerBody | null) => void) {
    this.#keepsBodies = keepsBodies;
    this.#done = done;
  }
  onRequestStart(): void {}
  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    const jsonBytes = headers["inference-header-content-length"];
    if (jsonBytes !== undefined) this.#jsonBytes = Number(jsonBytes);
  }
  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#status === 200 ? !this.#keepsBodies : this.#byteCount >= ERROR_BYTES_MAX) return;
    this.#byteCount += chunk.byteLength;
    this.#chunks.push(chunk);
  }
  onResponseEnd(): void {
    const bytes = Buffer.concat(this.#chunks);
    if (this.#status === 200) {
      const jsonBytes = Math.min(this.#jsonBytes, bytes.byteLength);
      this.#done(HTTP_OK, this.#keepsBodies ? { bytes, jsonBytes } : null);
      return;
    }
    const { reason, text } = readErrorBody(bytes.toString("utf8"));
    this.#done(answerOf(this.#status, String(this.#status), reason, text), null);
  }
  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#done(answerOfError(error), null);
  }
}

/** A broken exchange as an outcome, by Node's and undici's error codes. */
function answerOfError(error: Error): Answer {
  const { code = "", name, message } = error as NodeJS.ErrnoException;
  const failed = (cause: LoadCause): Answer => answerFailed(cause, cause, "", message || code);
  // No socket to be had on this side is the generator's limit, not the server's answer.
  if (["EMFILE", "ENFILE", "EADDRNOTAVAIL"].includes(code))
    return answerDropped("generator-outstanding-full", "not-sent");
  if (["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH", "ENOENT"].includes(code))
    return failed("connection-refused");
  if (["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT", "UND_ERR_CONNECT_TIMEOUT", "ETIMEDOUT"].includes(code))
    return failed("client-timeout");
  if (code === "UND_ERR_RES_EXCEEDED_MAX_SIZE") return failed("response-too-large");
  if (name === "HTTPParserError" || code.startsWith("HPE_")) return failed("bad-response");
  return failed("connection-lost");
}

/** @throws ServingError unavailable or not-found, naming the address and what came instead. */
async function getJson(url: string): Promise<unknown> {
  let status = 0;
  let text = "";
  try {
    const response = await request(url, { headersTimeout: 10_000, bodyTimeout: 10_000 });
    status = response.statusCode;
    text = await response.body.text();
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    throw new ServingError("unavailable", `${url}: cannot be reached: ${message || code}`, { cause: error });
  }
  if (status !== 200) {
    const said = readErrorBody(text).text.slice(0, 300);
    throw new ServingError(status === 404 ? "not-found" : "unavailable", `${url}: answered ${status}: ${said}`);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ServingError("unavailable", `${url}: did not answer JSON: ${text.slice(0, 100)}`, { cause: error });
  }
}
