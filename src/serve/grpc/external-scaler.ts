/**
 * KEDA's external scaler (externalscaler.ExternalScaler): the advice on one accelerator group as the metric that KEDA
 * scales by. docs/autoscaling.md has the ScaledObject.
 *
 * Metadata of the trigger: `group`, the accelerator group, required where there are several; `acceleratorsPerReplica`,
 * how many accelerators one replica brings, by default those that the group has here; `signal`, `needed` or `advice`.
 * Other keys are KEDA's own.
 *
 * `needed` is the default: where replicas share the load, each replica's part falls when one is added, and a signal that
 * is held up for its cooldown would be multiplied again and again. KEDA's autoscaler has a hysteresis of its own.
 */
import type { handleServerStreamingCall, handleUnaryCall, ServerWritableStream } from "@grpc/grpc-js";
import type {
  ExternalScalerServer,
  GetMetricSpecResponse,
  GetMetricsResponse,
  IsActiveResponse,
  ScaledObjectRef,
} from "../../wire/proto/externalscaler.js";
import { ServingError } from "../../wire/serving-error.js";
import { type DoorOptions, servingErrorOf } from "../door.js";
import type { Gateway } from "../gateway.js";
import type { GroupScaling } from "../group-scaling.js";
import { statusOf } from "./status.js";

export const METRIC_NAME = "rubato-accelerators";
/** How often streams look for a change. */
const WATCH_INTERVAL_MS = 250;
const WATCHERS_MAX = 1024;
const PER_REPLICA_MAX = 65_536;

interface Watcher {
  readonly call: ServerWritableStream<ScaledObjectRef, unknown>;
  /** Writes when there is something new. */
  look(): void;
}

export class ExternalScaler {
  private readonly gateway: Gateway;
  private readonly options: DoorOptions;
  private readonly watchers = new Set<Watcher>();
  private timer: NodeJS.Timeout | null = null;

  constructor(gateway: Gateway, options: DoorOptions) {
    this.gateway = gateway;
    this.options = options;
  }

  get handlers(): ExternalScalerServer {
    return {
      isActive: this.unary((ref: ScaledObjectRef) => this.isActive(ref)),
      getMetricSpec: this.unary((ref: ScaledObjectRef) => this.metricSpec(ref)),
      getMetrics: this.unary(({ scaledObjectRef, metricName }): GetMetricsResponse => {
        if (metricName !== METRIC_NAME)
          throw new ServingError("not-found", `metricName must be '${METRIC_NAME}'; was '${metricName}'`, {
            reason: "unknown-metric",
          });
        const accelerators = this.signal(scaledObjectRef);
        return { metricValues: [{ metricName, metricValue: BigInt(accelerators), metricValueFloat: accelerators }] };
      }),
      streamIsActive: this.stream((ref) => this.isActive(ref)),
      streamMetricSpec: this.stream((ref) => this.metricSpec(ref)),
    };
  }

  /** Ends every stream: they would keep the server from shutting down. */
  close(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    for (const { call } of this.watchers) call.end();
    this.watchers.clear();
  }

  private isActive(ref: ScaledObjectRef): IsActiveResponse {
    return { result: this.groupOf(ref).isActive };
  }

  private metricSpec(ref: ScaledObjectRef): GetMetricSpecResponse {
    const perReplica = this.perReplica(ref);
    const targetSize = BigInt(Math.max(1, Math.round(perReplica)));
    return { metricSpecs: [{ metricName: METRIC_NAME, targetSize, targetSizeFloat: perReplica }] };
  }

  private groupOf(ref: ScaledObjectRef | undefined): GroupScaling {
    const groups = this.gateway.scaling();
    const wanted = ref?.scalerMetadata.group ?? "";
    if (wanted === "" && groups.length === 1) return groups[0]!;
    const group = groups.find((candidate) => candidate.group === wanted);
    if (group !== undefined) return group;
    const names = groups.map((candidate) => candidate.group).join(", ");
    throw new ServingError("invalid-argument", `metadata 'group' must be one of ${names}; was '${wanted}'`, {
      reason: "unknown-group",
    });
  }

  private signal(ref: ScaledObjectRef | undefined): number {
    const { advice, last } = this.groupOf(ref);
    const signal = ref?.scalerMetadata.signal ?? "needed";
    if (signal === "advice") return advice;
    if (signal === "needed") return last === null ? advice : last.needed;
    throw new ServingError(
      "invalid-argument",
      `metadata 'signal' must be needed or advice; was '${signal.slice(0, 100)}'`,
      { reason: "unknown-signal" },
    );
  }

  private perReplica(ref: ScaledObjectRef): number {
    const { configured } = this.groupOf(ref);
    const text = ref.scalerMetadata.acceleratorsPerReplica;
    if (text === undefined) return configured;
    const value = text.trim() === "" ? Number.NaN : Number(text);
    if (value > 0 && value <= PER_REPLICA_MAX) return value;
    throw new ServingError(
      "invalid-argument",
      `metadata 'acceleratorsPerReplica' must be a number in (0, ${PER_REPLICA_MAX}]; was '${text.slice(0, 100)}'`,
    );
  }

  private unary<Request, Response>(answer: (request: Request) => Response): handleUnaryCall<Request, Response> {
    return (call, callback) => {
      try {
        callback(null, answer(call.request));
      } catch (thrown) {
        callback(statusOf(servingErrorOf(thrown, this.options)));
      }
    };
  }

  /** The answer at once, and again whenever it is another one. */
  private stream<Response>(
    answer: (ref: ScaledObjectRef) => Response,
  ): handleServerStreamingCall<ScaledObjectRef, Response> {
    return (call) => {
      let told = "";
      const look = (): void => {
        const now = answer(call.request);
        const text = JSON.stringify(now, (_, value) => (typeof value === "bigint" ? String(value) : value));
        if (text === told) return;
        told = text;
        call.write(now);
      };
      try {
        if (this.watchers.size >= WATCHERS_MAX)
          throw new ServingError("resource-exhausted", `scaler streams must be at most ${WATCHERS_MAX}; was one more`, {
            reason: "watchers-full",
          });
        look();
      } catch (thrown) {
        call.emit("error", statusOf(servingErrorOf(thrown, this.options)));
        return;
      }
      const watcher: Watcher = { call: call as ServerWritableStream<ScaledObjectRef, unknown>, look };
      this.watchers.add(watcher);
      call.on("cancelled", () => this.watchers.delete(watcher));
      this.timer ??= setInterval(() => this.poll(), WATCH_INTERVAL_MS).unref();
    };
  }

  private poll(): void {
    for (const watcher of this.watchers) watcher.look();
  }
}
