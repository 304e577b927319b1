/**
 * The gRPC door: inference.GRPCInferenceService, KEDA's external scaler, health and reflection.
 *
 * Requests of ModelInfer arrive here as bytes, so that the door's limits are checked before anything is decoded.
 */
import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServiceDefinition,
  type sendUnaryData,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { ReflectionService } from "@grpc/reflection";
import { service as healthService } from "grpc-health-check";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { BodyPool } from "../../wire/infer/body-pool.js";
import type { MessagePieces } from "../../wire/infer/message-pieces.js";
import { FILE_DESCRIPTORS } from "../../wire/proto/descriptors.js";
import { ExternalScalerService } from "../../wire/proto/externalscaler.js";
import { GRPCInferenceServiceService } from "../../wire/proto/inference.js";
import { BODY_BYTES_MAX_DEFAULT, type Door, type DoorOptions } from "../door.js";
import type { Gateway } from "../gateway.js";
import { Admission } from "../requests/admission.js";
import { type CallContext, InferCallInFlight, refuseBefore } from "./call.js";
import { type ConnectionLimits, Connections } from "./connections.js";
import { ExternalScaler } from "./external-scaler.js";
import { Health } from "./health.js";
import { createMethods } from "./methods.js";
import { receptionInterceptor, receptionOf } from "./reception.js";
import { statusOf } from "./status.js";
import { serveStream } from "./stream.js";
import { REGISTER_TASK_PATH, taskMethods, tasksService } from "./tasks.js";
import { readingAll } from "./unreadable.js";

export interface GrpcDoorOptions extends DoorOptions, ConnectionLimits {
  /** Streams open at once on one connection; default 2048. Further calls wait at the client. */
  readonly concurrentStreamsMax?: number;
}

const { modelInfer: MODEL_INFER, modelStreamInfer: MODEL_STREAM_INFER } = GRPCInferenceServiceService;
/** A message that is no inference: names, and few of them. */
const OTHER_MESSAGE_BYTES_MAX = 64 * 1024;

export async function createGrpcDoor(gateway: Gateway, options: GrpcDoorOptions): Promise<Door> {
  const messageBytesMax = options.bodyBytesMax ?? BODY_BYTES_MAX_DEFAULT;
  const admission = new Admission(options);
  const connections = new Connections(admission, options, messageBytesMax);
  const inference: ReadonlySet<string> = new Set([MODEL_INFER.path, MODEL_STREAM_INFER.path, REGISTER_TASK_PATH]);
  const reception = receptionInterceptor(
    connections,
    (path) => {
      const isInference = inference.has(path);
      return {
        isInference,
        bytesMax: isInference ? messageBytesMax : Math.min(messageBytesMax, OTHER_MESSAGE_BYTES_MAX),
      };
    },
    (error) => {
      refuseBefore({ gateway }, error, monotonicNow(), null);
      options.onAnswer?.("grpc", error.code, error.details.reason ?? error.code);
    },
  );
  const server = new Server({
    // Also of what is inflated; messages that announce more are refused before (inlet.ts).
    "grpc.max_receive_message_length": messageBytesMax,
    "grpc.max_send_message_length": -1,
    // A peer that is gone without a word is noticed within a minute and a half.
    "grpc.keepalive_time_ms": 60_000,
    "grpc.keepalive_timeout_ms": 20_000,
    "grpc.max_concurrent_streams": options.concurrentStreamsMax ?? 2048,
    interceptors: [reception],
  });
  const bodyPool = new BodyPool({ threads: options.parserThreads ?? 1 });
  bodyPool.warm();
  const context: CallContext = { gateway, options, bodyPool };
  const health = new Health(gateway);
  server.addService(inferenceService(), {
    ...createMethods(gateway, options),
    modelInfer: (call: ServerUnaryCall<Buffer, MessagePieces>, callback: sendUnaryData<MessagePieces>) =>
      serveUnary(context, call, callback),
    modelStreamInfer: (call: ServerDuplexStream<Buffer, MessagePieces>) => serveStream(context, call),
  } as UntypedServiceImplementation);
  server.addService(readingAll(healthService as unknown as ServiceDefinition), health.handlers);
  server.addService(tasksService(), taskMethods(gateway, options, bodyPool) as unknown as UntypedServiceImplementation);
  const scaler = new ExternalScaler(gateway, options);
  server.addService(readingAll(ExternalScalerService), scaler.handlers as unknown as UntypedServiceImplementation);
  addReflection(server);

  const host = options.host ?? "127.0.0.1";
  const port = await bind(server, `${host.includes(":") ? `[${host}]` : host}:${options.port}`);
  connections.attach(server);
  let closed: Promise<void> | null = null;
  return {
    port,
    get inFlight() {
      return admission.inFlight;
    },
    get inFlightBytes() {
      return admission.inFlightBytes;
    },
    close(graceMs) {
      closed ??= new Promise((resolve) => {
        health.close();
        scaler.close();
        const timer = setTimeout(() => server.forceShutdown(), graceMs);
        server.tryShutdown(() => {
          clearTimeout(timer);
          connections.close();
          bodyPool.close().then(resolve, resolve);
        });
      });
      return closed;
    },
  };
}

/** The generated service; messages of the two inference methods are decoded and encoded by the call. */
function inferenceService(): ServiceDefinition {
  const bytes = { requestDeserialize: (message: Buffer): Buffer => message };
  return {
    ...readingAll(GRPCInferenceServiceService),
    modelInfer: { ...MODEL_INFER, ...bytes },
    modelStreamInfer: { ...MODEL_STREAM_INFER, ...bytes },
  } as unknown as ServiceDefinition;
}

function serveUnary(
  context: CallContext,
  call: ServerUnaryCall<Buffer, MessagePieces>,
  callback: sendUnaryData<MessagePieces>,
): void {
  const traceparent = call.metadata.get("traceparent")[0];
  const reception = receptionOf(call.metadata);
  new InferCallInFlight(
    context,
    "unary",
    call.request,
    reception.inlet.take(),
    reception,
    typeof traceparent === "string" ? traceparent : null,
    (error, response) => {
      if (error === null) callback(null, response!);
      else callback(statusOf(error));
    },
  ).start();
}

function addReflection(server: Server): void {
  const files = FILE_DESCRIPTORS.map((file) => Buffer.from(file, "base64"));
  // A method's message type carries the descriptors of its whole file.
  const definitions = { inference: { fileDescriptorProtos: files }, health: healthService.Check!.requestType };
  const reflection = new ReflectionService(
    definitions as unknown as ConstructorParameters<typeof ReflectionService>[0],
  );
  const addService: Server["addService"] = (service, handlers) => server.addService(readingAll(service), handlers);
  reflection.addToServer({ addService });
}

function bind(server: Server, address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, port) => {
      if (error === null) resolve(port);
      else reject(error);
    });
  });
}
