/**
 * The HTTP door: Open Inference Protocol v2 with the extensions of `EXTENSIONS`, health and metrics.
 *
 * fastify routes and answers everything small. Inference is taken before it (exchange.ts): routing, request and reply
 * objects and hooks have nothing to add to a tensor and cost a third of the door's time on every request.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import fastify, { type FastifyReply, type FastifyRequest } from "fastify";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { BodyPool } from "../../wire/infer/body-pool.js";
import { encodeError } from "../../wire/infer/infer-answer.js";
import { ERROR_CODES, ServingError } from "../../wire/serving-error.js";
import { BODY_BYTES_MAX_DEFAULT, type Door, type DoorOptions, notSupported, servingErrorOf } from "../door.js";
import type { Gateway } from "../gateway.js";
import { Admission } from "../requests/admission.js";
import { sendError } from "./answer.js";
import { type ConnectionLimits, Connections } from "./connections.js";
import { type ExchangeContext, InferExchange } from "./exchange.js";
import { Inflations } from "./inflation.js";
import { announcedLength, tooLarge } from "./request-body.js";
import { parseModelPath } from "./request-path.js";
import { addRoutes, routesOf } from "./routes.js";
import { addTaskRoutes } from "./task-routes.js";

export interface HttpDoorOptions extends DoorOptions, ConnectionLimits {
  /** Milliseconds for the headers of a request to arrive; default 10 s. */
  readonly headersTimeoutMs?: number;
  /** Milliseconds for a whole request to arrive; default 60 s. */
  readonly requestTimeoutMs?: number;
  /** Milliseconds an idle connection is kept; default 75 s, above the idle time of common proxies and client pools. */
  readonly keepAliveTimeoutMs?: number;
}

/** Names and paths of models are limited only by the 16 KiB of headers that Node reads. */
const PATH_LENGTH_MAX = 16 * 1024;
/** What is no inference has a body of a few bytes, or the text of one model's configuration. */
const CONTROL_BODY_BYTES_MAX = 64 * 1024;
const CONTROL_REQUESTS_MAX = 1024;

export async function createHttpDoor(gateway: Gateway, options: HttpDoorOptions): Promise<Door> {
  const bodyBytesMax = options.bodyBytesMax ?? BODY_BYTES_MAX_DEFAULT;
  const admission = new Admission(options);
  const control = new Admission({ inFlightRequestsMax: CONTROL_REQUESTS_MAX });
  const bodyPool = new BodyPool({ threads: options.parserThreads ?? 2 });
  bodyPool.warm();
  const context: ExchangeContext = {
    gateway,
    options,
    bodyPool,
    inflations: new Inflations(),
    bodyBytesMax,
    isClosing: false,
  };
  const requestTimeout = options.requestTimeoutMs ?? 60_000;
  const headersTimeout = Math.min(options.headersTimeoutMs ?? 10_000, requestTimeout);
  const app = fastify({
    logger: false,
    bodyLimit: CONTROL_BODY_BYTES_MAX,
    keepAliveTimeout: options.keepAliveTimeoutMs ?? 75_000,
    requestTimeout,
    // While closing, requests on open connections are still the gateway's to answer.
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: PATH_LENGTH_MAX, caseSensitive: true },
    http: { connectionsCheckingInterval: Math.min(1000, Math.max(10, Math.round(headersTimeout / 4))), headersTimeout },
    frameworkErrors: (error, _request, reply) => replyError(reply, servingErrorOf(fromFramework(error), options)),
    clientErrorHandler: (error, socket) => connections.refuse(socket, clientErrorText(error)),
  });
  // Node drops headers past this count and says nothing, Content-Length too; their 16 KiB are limit enough.
  app.server.maxHeadersCount = 0;
  const connections = new Connections(app.server, admission, options, bodyBytesMax);

  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error, _request, reply) => replyError(reply, servingErrorOf(fromFramework(error), options)));
  app.setNotFoundHandler((request) => refusePath(request));
  // What the head of a request decides is decided here: a body that nobody wants is not read.
  app.addHook("onRequest", (request, reply, done) => {
    if (context.isClosing) reply.header("connection", "close");
    // Bodies are JSON whatever they say: official clients send no type, or a wrong one.
    if (request.raw.headers["content-type"] !== undefined) request.raw.headers["content-type"] = undefined;
    if (request.is404) refusePath(request);
    done();
  });
  addRoutes(app, gateway, options);
  addTaskRoutes(routesOf(app), gateway, bodyPool, bodyBytesMax);
  // After the routes' own hooks: what they refuse takes no place.
  app.addHook("preParsing", (request, reply, payload, done) => {
    const length = announcedLength(request.raw);
    const bytesMax = request.routeOptions.bodyLimit;
    if (length !== null && length > bytesMax) throw tooLarge(bytesMax, String(length));
    if (length !== 0) {
      const place = connections.begin(reply.raw, request.raw.socket, control);
      place.enter();
      place.grow(length ?? bytesMax);
    }
    done(null, payload);
  });
  takeInferences(app.server, context, connections);

  await app.listen({ host: options.host ?? "127.0.0.1", port: options.port });
  const port = (app.server.address() as AddressInfo).port;
  let closed: Promise<void> | null = null;
  return {
    port,
    get inFlight() {
      return admission.inFlight + control.inFlight;
    },
    get inFlightBytes() {
      return admission.inFlightBytes + control.inFlightBytes;
    },
    get parsing() {
      return bodyPool.jobs;
    },
    close(graceMs) {
      closed ??= (async () => {
        context.isClosing = true;
        await drain(app.server, graceMs);
        await app.close();
        connections.close();
        await bodyPool.close();
      })();
      return closed;
    },
  };
}

const MODELS_PREFIX = "/v2/models/";

/** POST under /v2/models/ is inference, or falls through to the framework's handler that answers 405 or 501. */
function takeInferences(server: Server, context: ExchangeContext, connections: Connections): void {
  const [next] = server.listeners("request") as ((request: IncomingMessage, response: ServerResponse) => void)[];
  server.removeAllListeners("request");
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    const coding = request.headers["transfer-encoding"];
    if (coding !== undefined && coding.trim().toLowerCase() !== "chunked") {
      // Its end is known, its content is not: nothing after it on this connection is believed.
      const error = notSupported(`Transfer-Encoding '${coding}' (only chunked)`);
      sendError(response, error, { isClosing: true });
    } else if (!takeInference(context, connections, request, response)) next!(request, response);
  });
}

function takeInference(
  context: ExchangeContext,
  connections: Connections,
  request: IncomingMessage,
  response: ServerResponse,
): boolean {
  const url = request.url!;
  if (request.method !== "POST" || !url.startsWith(MODELS_PREFIX)) return false;
  const receivedAt = monotonicNow();
  const query = url.indexOf("?");
  const path = parseModelPath(url.slice(MODELS_PREFIX.length, query < 0 ? undefined : query));
  if (path === null || path.action !== "infer") return false;
  const place = connections.begin(response, request.socket, "inference");
  new InferExchange(context, request, response, path, receivedAt, place).start();
  return true;
}

/** Stops listening and waits for open requests; what is left after `graceMs` is cut. */
function drain(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), graceMs);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}

export function replyError(reply: FastifyReply, error: ServingError): FastifyReply {
  if (error.details.retryAfterS !== undefined)
    reply.header("retry-after", Math.max(1, Math.ceil(error.details.retryAfterS)));
  return reply.code(ERROR_CODES[error.code].http).type("application/json").send(encodeError(error));
}

/** fastify's own errors carry a status; anything else is ours or a bug. */
function fromFramework(error: unknown): unknown {
  if (error instanceof ServingError) return error;
  const { statusCode, message } = error as { statusCode?: number; message?: string };
  if (statusCode === undefined || statusCode >= 500) return error;
  const code =
    statusCode === 413
      ? "payload-too-large"
      : statusCode === 415
        ? "unsupported-encoding"
        : statusCode === 404
          ? "not-found"
          : "invalid-argument";
  return new ServingError(code, message ?? "bad request");
}

function refusePath(request: FastifyRequest): never {
  throw new ServingError("not-found", `unknown path: ${request.method} ${request.url}`, { reason: "unknown-path" });
}

/** Bytes that are not HTTP, or headers that are too many or too slow: there is no request to answer, only a socket. */
function clientErrorText(error: NodeJS.ErrnoException): string {
  const [status, text] =
    error.code === "ERR_HTTP_REQUEST_TIMEOUT"
      ? ["408 Request Timeout", "the request did not arrive in time"]
      : error.code === "HPE_HEADER_OVERFLOW"
        ? ["431 Request Header Fields Too Large", "the request headers must have at most 16384 bytes"]
        : ["400 Bad Request", `the request must be HTTP/1.1: ${error.code ?? error.message}`];
  const body = JSON.stringify({ error: text, reason: "malformed-http" });
  return `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`;
}
