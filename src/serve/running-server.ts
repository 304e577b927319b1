/** A whole server from its configuration: log, workers, scheduler, models, doors; and its end. */
import { closeSync, openSync } from "node:fs";
import type { ServerConfig } from "../config/server/server.js";
import { Planner } from "../planning/planner.js";
import { LIVE_DEFAULTS } from "../policies/live.js";
import { monotonicNow } from "../wire/clock/monotonic-clock.js";
import type { Door } from "./door.js";
import { hostLimits } from "./models/host-limits.js";
import { profileFolder } from "./models/profile-folder.js";
import { createLog, type Log } from "./observation/log.js";
import { Tracer } from "./observation/tracing.js";
import { RepositorySource } from "./repository/repository-source.js";
import { Server } from "./server.js";
import { ProcessPool } from "./workers/process-pool.js";

/** Requests that the scheduler may hold beyond what doors let in: answered at their deadline, not yet ended. */
const SLOTS_SPARE = 1024;

export interface RunningServer {
  readonly server: Server;
  readonly log: Log;
  /** "http://127.0.0.1:8000" */
  readonly httpUrl: string;
  /** "127.0.0.1:8001"; null: no gRPC door. */
  readonly grpcTarget: string | null;
  /** Resolves when workers run and models are loaded (those that could be). Rejects when the server cannot start. */
  readonly started: Promise<void>;
  /** Ends gracefully; see Server.stop. @param quietMs time without a call after which the lame duck may end. @param lameMs after which it does. */
  stop(quietMs: number, lameMs?: number): Promise<void>;
}

/**
 * Opens the doors first, so that health is answered while models load; `started` says when they have.
 *
 * @param version of the server. @param onBroken a bug: the process should end.
 * @throws Error that names `event_log.file` and its value when that cannot be written; errors of the ports.
 */
export async function runServer(
  config: ServerConfig,
  version: string,
  onBroken: (error: unknown) => void,
): Promise<RunningServer> {
  if (config.eventLog !== null) checkWritable("event_log.file", config.eventLog.file);
  const log = await createLog(config.log.level, config.log.pretty);
  const tracer =
    config.tracing === null
      ? null
      : await Tracer.create(
          { endpoint: config.tracing.otlpEndpoint, sample: config.tracing.sample, version },
          Date.now() * 1000 - monotonicNow(),
        );
  const { workers, profile, scheduler, http, grpc } = config;
  const pool = new ProcessPool(config.groups, {
    log: ({ level, message }) => log[level](message),
    providers: workers.providers,
    hangFactor: workers.hangFactor,
    hangFloorMs: workers.hangFloorUs / 1000,
    loadTimeoutMs: workers.loadTimeoutUs / 1000,
    warmUpMs: workers.warmUpUs / 1000,
    memoryBytesMax: workers.memoryMaxBytes,
  });
  const cache = profileFolder();
  if (cache.problem !== null)
    log.warn(
      { because: cache.problem },
      "profiles are kept beside their models, or not at all: there is no private cache folder",
    );
  const source = new RepositorySource(pool, log, {
    folder: config.modelsDir,
    profileBudgetMs: profile.budgetUs / 1000,
    refresh: profile.refresh,
    cacheDir: cache.folder,
    host: hostLimits(config),
  });
  const server = new Server({
    pool,
    log,
    tracer,
    slots: http.inFlightMax + (grpc?.inFlightMax ?? 0) + SLOTS_SPARE,
    retriesMax: config.retryMax,
    policyDefaults: {
      ...LIVE_DEFAULTS,
      idle_dispatch: scheduler.idleDispatch,
      isolation: scheduler.isolation,
      rate_window_s: scheduler.rateWindowUs / 1e6,
    },
    schedulerMode: scheduler.threads > 0 ? { threads: scheduler.threads } : "inline",
    profiler: scheduler.profiler,
    eventLog: config.eventLog === null ? null : { file: config.eventLog.file, bytesMax: config.eventLog.maxBytes },
    models: source,
    pipelines: source,
    modelControl: config.modelControl,
    readyWhen: config.readyWhen,
    placement: config.placement === null ? null : { config: config.placement, planner: new Planner() },
    onBroken,
  });
  const common = {
    version,
    onInternalError: (error: Error) => log.error({ err: error.cause ?? error }, "internal error"),
  };
  const doors: Door[] = [];
  try {
    // Loaded only here: the rest of the command line must not wait for them.
    const { createHttpDoor } = await import("./http/door.js");
    doors.push(
      await createHttpDoor(server, {
        ...common,
        host: http.host,
        port: http.port,
        bodyBytesMax: http.bodyMaxBytes,
        inFlightRequestsMax: http.inFlightMax,
        inFlightBytesMax: http.inFlightMaxBytes,
        connectionsMax: http.connectionsMax,
        connectionInFlightMax: http.connectionInFlightMax,
        requestTimeoutMs: http.requestTimeoutMs,
        writeTimeoutMs: http.writeTimeoutMs,
        addressShareMax: http.addressShareMax,
        proxies: http.proxies,
        parserThreads: http.jsonThreads,
      }),
    );
    if (grpc !== null) {
      const { createGrpcDoor } = await import("./grpc/door.js");
      doors.push(
        await createGrpcDoor(server, {
          ...common,
          host: grpc.host,
          port: grpc.port,
          bodyBytesMax: grpc.messageMaxBytes,
          inFlightRequestsMax: grpc.inFlightMax,
          inFlightBytesMax: grpc.inFlightMaxBytes,
          connectionsMax: grpc.connectionsMax,
          ...(grpc.connectionInFlightMax === null ? {} : { connectionInFlightMax: grpc.connectionInFlightMax }),
          ...(grpc.connectionInFlightMaxBytes === null ? {} : { connectionBytesMax: grpc.connectionInFlightMaxBytes }),
          concurrentStreamsMax: grpc.connectionStreamsMax,
          requestTimeoutMs: grpc.requestTimeoutMs,
          writeTimeoutMs: grpc.writeTimeoutMs,
        }),
      );
    }
  } catch (error) {
    await Promise.all(doors.map((door) => door.close(0)));
    throw error;
  }
  const closeDoors = async (graceMs: number): Promise<void> => {
    await Promise.all(doors.map((door) => door.close(graceMs)));
  };
  return {
    server,
    log,
    httpUrl: `http://${hostText(http.host)}:${doors[0]!.port}`,
    grpcTarget: grpc === null ? null : `${hostText(grpc.host)}:${doors[1]!.port}`,
    started: server.start(),
    stop: (quietMs, lameMs) => server.stop(config.drainUs / 1000, quietMs, closeDoors, lameMs),
  };
}

const hostText = (host: string): string => (host.includes(":") ? `[${host}]` : host);

/** Before anything is started; the scheduler opens the file itself, perhaps on another thread. */
function checkWritable(field: string, file: string): void {
  try {
    closeSync(openSync(file, "a"));
  } catch (error) {
    throw new Error(`${field} must be a file that can be written; was ${file} (${(error as Error).message})`);
  }
}
