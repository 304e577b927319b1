/**
 * OpenTelemetry spans of a request, one per stage, made after the fact and only when it is sampled: a request that is
 * not costs a comparison. A sampled W3C `traceparent` is the parent of our spans and decides for us.
 */
import type { Attributes, Context, Tracer as OtelTracer, Span } from "@opentelemetry/api";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import type { ServingError } from "../../wire/serving-error.js";
import type { RefusedCall } from "../gateway.js";

export interface RequestTrace {
  readonly traceId: string;
  readonly spanId: string;
}

export interface TracerOptions {
  /** OTLP over HTTP with protobuf; null with `exporter`. */
  readonly endpoint: string | null;
  /** Share of requests without a decision of their own that are traced, in [0, 1]. */
  readonly sample: number;
  /** Version shown in the resource. */
  readonly version: string;
  /** Instead of the endpoint; for tests. */
  readonly exporter?: unknown;
  /** In [0, 1); for tests. */
  readonly random?: () => number;
}

/** A root without a parent: sampled, of no trace yet. */
const ROOT: RequestTrace = { traceId: "", spanId: "" };

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/** @returns null when it is malformed, as W3C Trace Context 3.2 says: then it is as if there were none. */
export function parseTraceparent(header: string | null): (RequestTrace & { readonly isSampled: boolean }) | null {
  const match = header === null ? null : TRACEPARENT.exec(header);
  if (match === null) return null;
  const [, traceId, spanId, flags] = match as unknown as [string, string, string, string];
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** What a request's spans tell. Moments in µs of the server's clock; -1: it did not come to that. */
export interface TracedRequest {
  readonly trace: RequestTrace | null;
  readonly model: {
    readonly spec: { readonly name: string; readonly version: string };
    readonly apps: { nameOf(kind: number): string };
  };
  readonly traits: { readonly kind: number };
  readonly receivedAt: number;
  readonly deadline: number;
  readonly openedAt: number;
  readonly dispatchedAt: number;
  readonly execStartAt: number;
  readonly execEndAt: number;
  readonly answeredAt: number;
  readonly batchSize: number;
}

export class Tracer {
  private readonly tracer: OtelTracer;
  private readonly api: typeof import("@opentelemetry/api");
  private readonly provider: { shutdown(): Promise<void> };
  private readonly sample: number;
  private readonly random: () => number;
  /** Adds to a moment of the monotonic clock, µs, to make it one of the wall clock. */
  private readonly epochOffsetUs: number;

  private constructor(
    tracer: OtelTracer,
    api: typeof import("@opentelemetry/api"),
    provider: { shutdown(): Promise<void> },
    options: TracerOptions,
    epochOffsetUs: number,
  ) {
    this.tracer = tracer;
    this.api = api;
    this.provider = provider;
    this.sample = options.sample;
    this.random = options.random ?? Math.random;
    this.epochOffsetUs = epochOffsetUs;
  }

  /** Loads OpenTelemetry only here: its import takes longer than the rest of the server. */
  static async create(options: TracerOptions, epochOffsetUs: number): Promise<Tracer> {
    const [api, sdk, resources] = await Promise.all([
      import("@opentelemetry/api"),
      import("@opentelemetry/sdk-trace-node"),
      import("@opentelemetry/resources"),
    ]);
    const resource = resources.resourceFromAttributes({ "service.name": "rubato", "service.version": options.version });
    let processor: InstanceType<typeof sdk.BatchSpanProcessor> | InstanceType<typeof sdk.SimpleSpanProcessor>;
    if (options.exporter !== undefined) processor = new sdk.SimpleSpanProcessor(options.exporter as never);
    else {
      const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-proto");
      processor = new sdk.BatchSpanProcessor(new OTLPTraceExporter({ url: options.endpoint! }));
    }
    // Sampled is what we make at all, so the provider keeps everything.
    const provider = new sdk.NodeTracerProvider({
      resource,
      spanProcessors: [processor],
      sampler: new sdk.AlwaysOnSampler(),
    });
    return new Tracer(provider.getTracer("rubato"), api, provider, options, epochOffsetUs);
  }

  /** @returns what to keep with the request; null: it is not traced. */
  begin(traceparent: string | null): RequestTrace | null {
    const parent = parseTraceparent(traceparent);
    if (parent !== null) return parent.isSampled ? parent : null;
    return this.sample > 0 && this.random() < this.sample ? ROOT : null;
  }

  /** The request ended: its spans, with their real times. */
  end(request: TracedRequest, outcome: string, reason: string, at: number): void {
    const { trace } = request;
    if (trace === null) return;
    const { api } = this;
    const endAt = request.answeredAt >= 0 ? request.answeredAt : at;
    const context = this.contextOf(trace);
    const root = this.root(context, request.receivedAt, {
      "rubato.model": request.model.spec.name,
      "rubato.version": request.model.spec.version,
      "rubato.app": request.model.apps.nameOf(request.traits.kind),
      "rubato.kind": request.traits.kind,
      "rubato.outcome": outcome,
      "rubato.reason": reason,
      "rubato.deadline_us": request.deadline - request.receivedAt,
      "rubato.batch_size": request.batchSize,
    });
    const inside = api.trace.setSpan(context, root);
    const { openedAt, dispatchedAt, execStartAt, execEndAt } = request;
    if (dispatchedAt < 0) this.stage("queue", request.receivedAt, endAt, inside);
    else {
      const opened = Math.max(request.receivedAt, Math.min(openedAt, dispatchedAt));
      this.stage("batch-wait", request.receivedAt, opened, inside);
      this.stage("accelerator-wait", opened, dispatchedAt, inside);
      if (execStartAt >= 0) {
        this.stage("dispatch", dispatchedAt, execStartAt, inside);
        this.stage("execute", execStartAt, execEndAt, inside);
        if (endAt > execEndAt) this.stage("answer", execEndAt, endAt, inside);
      }
    }
    if (outcome !== "finished") root.setStatus({ code: api.SpanStatusCode.ERROR, message: reason || outcome });
    root.end(this.date(endAt));
  }

  /** Refused before it was a request, or dropped as it came: one span, without stages. */
  refused(call: RefusedCall, error: ServingError, outcome: "refused" | "dropped"): void {
    const trace = this.begin(call.traceparent);
    if (trace === null) return;
    const reason = error.details.reason ?? error.code;
    const span = this.root(this.contextOf(trace), call.receivedAt, {
      "rubato.model": call.model,
      "rubato.version": call.version,
      "rubato.outcome": outcome,
      "rubato.reason": reason,
    });
    span.setStatus({ code: this.api.SpanStatusCode.ERROR, message: reason });
    span.end(this.date(monotonicNow()));
  }

  shutdown(): Promise<void> {
    return this.provider.shutdown();
  }

  private contextOf(trace: RequestTrace): Context {
    const { api } = this;
    if (trace.traceId === "") return api.ROOT_CONTEXT;
    const parent = { ...trace, traceFlags: api.TraceFlags.SAMPLED, isRemote: true };
    return api.trace.setSpanContext(api.ROOT_CONTEXT, parent);
  }

  private root(context: Context, receivedAt: number, attributes: Attributes): Span {
    const options = { kind: this.api.SpanKind.SERVER, startTime: this.date(receivedAt), attributes };
    return this.tracer.startSpan("infer", options, context);
  }

  private stage(name: string, from: number, to: number, context: Context): void {
    const span: Span = this.tracer.startSpan(name, { startTime: this.date(from) }, context);
    span.end(this.date(Math.max(from, to)));
  }

  /** OpenTelemetry's [seconds, nanoseconds] of the wall clock. */
  private date(at: number): [number, number] {
    const us = at + this.epochOffsetUs;
    return [Math.floor(us / 1e6), Math.round((us % 1e6) * 1000)];
  }
}
