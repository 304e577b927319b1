/** Every path but inference: health, metadata, configuration, statistics, repository, metrics. */
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from "fastify";
import { checkJsonBounds } from "../../wire/infer/json-bounds.js";
import { describe, type Parameters, readParameters } from "../../wire/infer-parameters.js";
import { ServingError } from "../../wire/serving-error.js";
import { type DoorOptions, EXTENSIONS, notSupported, SERVER_NAME } from "../door.js";
import type { Gateway, MetricsFormat, ModelStatistics, StatisticDuration } from "../gateway.js";
import { modelConfigJson, modelMetadata } from "../repository/model-config.js";
import { compressed } from "./answer.js";
import { type ModelPath, parseModelPath, readAsName } from "./request-path.js";

type Handler = (request: FastifyRequest, reply: FastifyReply) => unknown;
/** Refuses by the head alone, before a body is read: throws, or lets it through. */
type Check = (request: FastifyRequest, reply: FastifyReply) => void;

export type Route = (
  url: string,
  handlers: Partial<Record<"GET" | "POST" | "DELETE", Handler>>,
  check?: Check,
  /** Of a body; default the door's for what is no inference. */
  bodyBytesMax?: number,
) => void;

/** The methods given, and 405 with Allow for all others. */
export function routesOf(app: FastifyInstance): Route {
  return (url, handlers, check, bodyBytesMax) => {
    const allowed = Object.keys(handlers).flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method]));
    const onRequest = (of: Check) => async (request: FastifyRequest, reply: FastifyReply) => of(request, reply);
    for (const [method, handler] of Object.entries(handlers))
      app.route({
        method: method as HTTPMethods,
        url,
        handler,
        ...(check === undefined ? {} : { onRequest: onRequest(check) }),
        ...(bodyBytesMax === undefined ? {} : { bodyLimit: bodyBytesMax }),
      });
    app.route({
      method: app.supportedMethods.filter((method) => !allowed.includes(method)) as HTTPMethods[],
      url,
      onRequest: onRequest((request, reply) => refuseMethod(request, reply, allowedAt(url, request) ?? allowed)),
      handler: () => {},
    });
  };
}

export function addRoutes(app: FastifyInstance, gateway: Gateway, options: DoorOptions): void {
  const route = routesOf(app);
  const send = (request: FastifyRequest, reply: FastifyReply, type: string, text: string): unknown => {
    reply.type(type);
    return compressed(request, reply, text);
  };
  const statistics = (
    request: FastifyRequest,
    reply: FastifyReply,
    models: readonly ModelStatistics[],
    beside: object = {},
  ): unknown =>
    send(request, reply, "application/json; charset=utf-8", JSON.stringify({ ...beside, ...statisticsJson(models) }));

  route("/v2", {
    GET: () => ({ name: SERVER_NAME, version: options.version, extensions: EXTENSIONS }),
  });
  route("/v2/health/live", { GET: (_, reply) => health(reply, gateway.live, { live: gateway.live }, "not live") });
  route("/v2/health/ready", { GET: (_, reply) => health(reply, gateway.ready, { ready: gateway.ready }, "not ready") });
  route("/v2/models", { GET: () => ({ models: gateway.modelNames() }) });
  route("/v2/models/stats", {
    GET: (request, reply) => {
      const namesake = gateway.modelNames().includes("stats") ? modelMetadata(gateway.model("stats", "")) : {};
      return statistics(request, reply, gateway.statistics(null, ""), namesake);
    },
  });
  route(
    "/v2/models/*",
    {
      GET: (request, reply) => {
        const path = servedPath(gateway, modelPath(request));
        if (path.action !== "stats") return getModel(gateway, path, request, reply);
        gateway.model(path.name, path.version);
        return statistics(request, reply, gateway.statistics(path.name, path.version));
      },
      POST: () => {},
    },
    (request, reply) => {
      if (request.method === "POST") postModel(modelPath(request), request, reply);
    },
  );
  route("/v2/repository/index", {
    POST: (request) => gateway.repositoryIndex(readReady(jsonBody(request))),
  });
  route("/v2/repository/models/*", { POST: (request) => repository(gateway, request) }, (request) => {
    refuseBrowser(request);
    gateway.checkControl(controlPath(request).action);
  });
  const metrics = shared((format: MetricsFormat) => gateway.metrics(format));
  route("/metrics", {
    GET: async (request, reply) => {
      const isOpen = String(request.raw.headers.accept ?? "").includes("application/openmetrics-text");
      const type = isOpen ? "application/openmetrics-text; version=1.0.0" : "text/plain; version=0.0.4";
      return send(request, reply, `${type}; charset=utf-8`, await metrics(isOpen ? "openmetrics" : "prometheus"));
    },
  });
  const offered: readonly [string, string][] = [
    ["/v2/trace/setting", "tracing by request (trace)"],
    ["/v2/logging", "changing log settings (logging)"],
    ["/v2/systemsharedmemory/*", "shared memory (system_shared_memory)"],
    ["/v2/cudasharedmemory/*", "shared memory (cuda_shared_memory)"],
  ];
  for (const [url, what] of offered) {
    const refuse = (): never => {
      throw notSupported(what);
    };
    route(url, { GET: refuse, POST: refuse }, refuse);
  }
}

/** Under /v2/models/ the methods depend on what the path asks for. */
function allowedAt(url: string, request: FastifyRequest): readonly string[] | null {
  if (url !== "/v2/models/*") return null;
  const { action } = modelPath(request);
  if (action === "infer" || action === "generate" || action === "generate_stream") return ["POST"];
  return action === "trace" ? ["GET", "POST"] : ["GET", "HEAD"];
}

function refuseMethod(request: FastifyRequest, reply: FastifyReply, allowed: readonly string[]): never {
  reply.header("allow", allowed.join(", "));
  throw new ServingError(
    "method-not-allowed",
    `method of ${request.url} must be ${allowed.join(" or ")}, got ${request.method}`,
    { reason: "method-not-allowed" },
  );
}

function health(reply: FastifyReply, isHealthy: boolean, body: object, text: string): unknown {
  if (isHealthy) return body;
  return reply.code(503).send({ ...body, error: text });
}

function modelPath(request: FastifyRequest): ModelPath {
  const url = request.raw.url!;
  const query = url.indexOf("?");
  const path = parseModelPath(url.slice("/v2/models/".length, query < 0 ? undefined : query));
  if (path === null)
    throw new ServingError("not-found", `unknown path: ${request.method} ${url}`, { reason: "unknown-path" });
  return path;
}

/** A model may be called like a path: what is served decides. */
function servedPath(gateway: Gateway, path: ModelPath): ModelPath {
  const alone = readAsName(path);
  if (alone === null) return path;
  const names = gateway.modelNames();
  return names.includes(alone.name) && !names.includes(path.name) ? alone : path;
}

function getModel(gateway: Gateway, path: ModelPath, request: FastifyRequest, reply: FastifyReply): unknown {
  switch (path.action) {
    case "metadata":
      return modelMetadata(gateway.model(path.name, path.version));
    case "config":
      return modelConfigJson(gateway.model(path.name, path.version), gateway.scaling());
    case "ready": {
      const fault = gateway.modelFault(path.name, path.version);
      const ready = fault === "";
      return health(reply, ready, { name: path.name, ready }, `model '${path.name}' is not ready: ${fault}`);
    }
    case "infer":
      return refuseMethod(request, reply, ["POST"]);
    case "generate":
    case "generate_stream":
      throw notSupported("text generation (generate)");
    case "trace":
      throw notSupported("tracing by request (trace)");
  }
}

/** POST that is not inference (the door takes that before). */
function postModel(path: ModelPath, request: FastifyRequest, reply: FastifyReply): never {
  if (path.action === "generate" || path.action === "generate_stream") throw notSupported("text generation (generate)");
  if (path.action === "trace") throw notSupported("tracing by request (trace)");
  return refuseMethod(request, reply, ["GET", "HEAD"]);
}

/** What a path under /v2/repository/models/ asks for. */
function controlPath(request: FastifyRequest): { name: string; action: "load" | "unload" } {
  const path = request.raw.url!.slice("/v2/repository/models/".length).replace(/\?.*$/, "").replace(/\/$/, "");
  const cut = path.lastIndexOf("/");
  const action = path.slice(cut + 1);
  const name = decodeURIComponent(path.slice(0, Math.max(0, cut)));
  if (name === "" || (action !== "load" && action !== "unload"))
    throw new ServingError("not-found", `unknown path: ${request.method} ${request.url}`, { reason: "unknown-path" });
  return { name, action };
}

/**
 * A page that a browser shows may send a POST to any address without asking, as plain text, and this server's clients
 * send no content type to tell it by. But browsers write on every POST whose page it is; programs do not.
 */
export function refuseBrowser(request: FastifyRequest): void {
  const { origin } = request.headers;
  if (origin !== undefined)
    throw new ServingError(
      "permission-denied",
      `models and their tasks are not changed from web pages: the request must have no header Origin, got '${origin}'`,
      { reason: "origin" },
    );
}

async function repository(gateway: Gateway, request: FastifyRequest): Promise<unknown> {
  const { name, action } = controlPath(request);
  const parameters: Parameters = readParameters(jsonBody(request).parameters, "the request");
  if (action === "load") {
    await gateway.load(name, parameters);
    return { name, load: true };
  }
  await gateway.unload(name);
  return { name, unload: true };
}

/** Those who ask while the answer is made get the same: a text of 100 KB is not made a thousand times at once. */
function shared(make: (format: MetricsFormat) => Promise<string>): (format: MetricsFormat) => Promise<string> {
  const making = new Map<MetricsFormat, Promise<string>>();
  return (format) => {
    let text = making.get(format);
    if (text === undefined) {
      text = make(format).finally(() => making.delete(format));
      making.set(format, text);
    }
    return text;
  };
}

/** A JSON object, or {} for an empty body. */
function jsonBody(request: FastifyRequest): Record<string, unknown> {
  const body = request.body as Buffer | undefined;
  if (body === undefined || body === null || body.byteLength === 0) return {};
  let value: unknown;
  checkJsonBounds(body);
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch (error) {
    throw new ServingError("invalid-argument", `the request body must be JSON: ${(error as Error).message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ServingError("invalid-argument", `the request body must be a JSON object, got ${describe(value)}`);
  return value as Record<string, unknown>;
}

function readReady(body: Record<string, unknown>): boolean {
  const ready = body.ready ?? false;
  if (typeof ready !== "boolean")
    throw new ServingError("invalid-argument", `ready must be a boolean, got ${describe(ready)}`);
  return ready;
}

const NONE: StatisticDuration = { count: 0, ns: 0 };

function statisticsJson(models: readonly ModelStatistics[]): object {
  return {
    model_stats: models.map((model) => ({
      name: model.name,
      version: model.version,
      last_inference: model.lastInferenceMs,
      inference_count: model.inferenceCount,
      execution_count: model.executionCount,
      inference_stats: {
        success: model.success,
        fail: model.fail,
        queue: model.queue,
        compute_input: model.computeInput,
        compute_infer: model.computeInfer,
        compute_output: model.computeOutput,
        cache_hit: NONE,
        cache_miss: NONE,
      },
      response_stats: {},
      batch_stats: model.batches.map((batch) => ({
        batch_size: batch.batchSize,
        compute_input: batch.computeInput,
        compute_infer: batch.computeInfer,
        compute_output: batch.computeOutput,
      })),
      memory_usage: [],
    })),
  };
}
