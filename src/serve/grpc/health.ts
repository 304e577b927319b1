/**
 * grpc.health.v1.Health, straight from the gateway: Check and List look at the moment, Watch sends each change.
 *
 * The whole server ("") and the inference service share one status: ready, as the protocol's ServerReady.
 */
import type {
  handleServerStreamingCall,
  handleUnaryCall,
  ServerWritableStream,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { ServingError } from "../../wire/serving-error.js";
import type { Gateway } from "../gateway.js";
import { statusOf } from "./status.js";

interface CheckRequest {
  readonly service: string;
}
interface CheckResponse {
  readonly status: "SERVING" | "NOT_SERVING" | "SERVICE_UNKNOWN";
}

const SERVICES: readonly string[] = ["", "inference.GRPCInferenceService"];
/** How often a Watch looks for a change. */
const WATCH_INTERVAL_MS = 50;
const WATCHERS_MAX = 1024;

export class Health {
  private readonly watchers = new Map<ServerWritableStream<CheckRequest, CheckResponse>, string>();
  private timer: NodeJS.Timeout | null = null;

  constructor(private readonly gateway: Gateway) {}

  get handlers(): UntypedServiceImplementation {
    const check: handleUnaryCall<CheckRequest, CheckResponse> = (call, callback) => {
      const { service } = call.request;
      if (SERVICES.includes(service)) callback(null, { status: this.status() });
      else
        callback(
          statusOf(
            new ServingError("not-found", `service must be '' or 'inference.GRPCInferenceService', got '${service}'`, {
              reason: "unknown-service",
            }),
          ),
        );
    };
    const list: handleUnaryCall<unknown, unknown> = (_call, callback) =>
      callback(null, {
        statuses: Object.fromEntries(SERVICES.map((service) => [service, { status: this.status() }])),
      });
    const watch: handleServerStreamingCall<CheckRequest, CheckResponse> = (call) => this.watch(call);
    return { check, list, watch } as UntypedServiceImplementation;
  }

  /** Ends every Watch: they would keep the server from shutting down. */
  close(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    for (const call of this.watchers.keys()) {
      call.write({ status: "NOT_SERVING" });
      call.end();
    }
    this.watchers.clear();
  }

  private status(): "SERVING" | "NOT_SERVING" {
    return this.gateway.ready ? "SERVING" : "NOT_SERVING";
  }

  private watch(call: ServerWritableStream<CheckRequest, CheckResponse>): void {
    if (!SERVICES.includes(call.request.service)) {
      call.write({ status: "SERVICE_UNKNOWN" });
      return;
    }
    if (this.watchers.size >= WATCHERS_MAX) {
      call.emit(
        "error",
        statusOf(
          new ServingError("resource-exhausted", `health watchers must be at most ${WATCHERS_MAX}, got one more`, {
            reason: "watchers-full",
          }),
        ),
      );
      return;
    }
    const status = this.status();
    this.watchers.set(call, status);
    call.write({ status });
    call.on("cancelled", () => this.watchers.delete(call));
    this.timer ??= setInterval(() => this.poll(), WATCH_INTERVAL_MS).unref();
  }

  private poll(): void {
    const status = this.status();
    for (const [call, last] of this.watchers)
      if (last !== status) {
        this.watchers.set(call, status);
        call.write({ status });
      }
  }
}
