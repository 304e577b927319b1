/** Tasks of elastic models: /v2/repository/models/MODEL/tasks[/TASK]. */
import type { FastifyRequest } from "fastify";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { type BodyPool, DECODE_INLINE_BYTES_MAX } from "../../wire/infer/body-pool.js";
import { decodeInferBody, type InferBody, readHeaderLength } from "../../wire/infer/infer-body.js";
import type { Gateway, TaskStatus } from "../gateway.js";
import { asTaskFault } from "../task-fault.js";
import { type Route, refuseBrowser } from "./routes.js";

/** A body of JSON waits for a parser so long at the most. */
const PARSE_US_MAX = 60_000_000;

/** A model's name may hold one slash, written plainly or as %2F. */
const MODELS = ["/v2/repository/models/:model", "/v2/repository/models/:group/:model"] as const;

interface Params {
  readonly group?: string;
  readonly model: string;
  readonly task: string;
}

export function addTaskRoutes(route: Route, gateway: Gateway, bodyPool: BodyPool, bodyBytesMax: number): void {
  const modelOf = (request: FastifyRequest): string => {
    const { group, model } = request.params as Params;
    return group === undefined ? model : `${group}/${model}`;
  };
  const taskOf = (request: FastifyRequest): string => (request.params as Params).task;
  const checkChange = (request: FastifyRequest): void => {
    if (request.method !== "POST" && request.method !== "DELETE") return;
    refuseBrowser(request);
    gateway.tasks.check(modelOf(request));
  };
  for (const url of MODELS) {
    route(`${url}/tasks`, {
      GET: (request) => ({ tasks: gateway.tasks.list(modelOf(request)).map(taskJson) }),
    });
    route(
      `${url}/tasks/:task`,
      {
        GET: (request) => taskJson(gateway.tasks.get(modelOf(request), taskOf(request))),
        POST: async (request, reply) => {
          const { inputs, parameters } = await decoded(request, bodyPool).catch(asTaskFault);
          const registration = { tensors: inputs, parameters };
          reply.code(202);
          return taskJson(await gateway.tasks.register(modelOf(request), taskOf(request), registration));
        },
        DELETE: async (request) => taskJson(await gateway.tasks.remove(modelOf(request), taskOf(request))),
      },
      checkChange,
      bodyBytesMax,
    );
  }
}

/** A registration is written as an inference: its tensors are inputs, in JSON or binary after it. */
async function decoded(request: FastifyRequest, bodyPool: BodyPool): Promise<InferBody> {
  const body = (request.body as Buffer | undefined | null) ?? Buffer.alloc(0);
  const header = request.headers["inference-header-content-length"];
  const headerLength = readHeaderLength(header === undefined ? undefined : String(header), body.byteLength);
  if ((headerLength ?? body.byteLength) <= DECODE_INLINE_BYTES_MAX) return decodeInferBody(body, headerLength);
  // Of its own memory: it is handed to another thread.
  const own = Buffer.from(Uint8Array.from(body).buffer);
  return new Promise((resolve, reject) => {
    bodyPool.decode(
      own,
      headerLength,
      (error, value) => (error === null ? resolve(value!) : reject(error)),
      monotonicNow() + PARSE_US_MAX,
    );
  });
}

function taskJson(task: TaskStatus): object {
  const { model, name, state, reason, version, profilingVersion, profiling, classes, utility, sloMs, gammas } = task;
  return {
    model,
    name,
    state,
    ...(reason === "" ? {} : { reason }),
    version,
    ...(profilingVersion === 0 ? {} : { profiling_version: profilingVersion }),
    ...(profiling === null
      ? {}
      : { profiling: { done: profiling.done, of: profiling.of, left_s: profiling.leftS ?? undefined } }),
    classes,
    utility,
    ...(sloMs === 0 ? {} : { slo_ms: sloMs }),
    gammas: gammas.map(({ gamma, accuracy, latencies }) => ({
      gamma,
      accuracy,
      ...(latencies.length === 0
        ? {}
        : { latency_us: Object.fromEntries(latencies.map(({ batchSize, us }) => [batchSize, us])) }),
    })),
  };
}
