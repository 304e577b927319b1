/**
 * The gRPC door: inference.GRPCInferenceService, health and reflection.
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
import { encodeProto } from "../../wire/infer-proto.js";
import { FILE_DESCRIPTORS } from "../../wire/proto/descriptors.js";
import {
  GRPCInferenceServiceService,
  type ModelInferResponse,
  type ModelStreamInferResponse,
} from "../../wire/proto/inference.js";
import { Admission } from "../admission.js";
import { BODY_BYTES_MAX_DEFAULT, type Door, type DoorOptions } from "../door.js";
import type { Gateway } from "../gateway.js";
import { type CallContext, InferCallInFlight } from "./call.js";
import { Health } from "./health.js";
import { createMethods } from "./methods.js";
import { receiptInterceptor, receiptOf } from "./receipt.js";
import { statusOf } from "./status.js";
import { serveStream } from "./stream.js";

export interface GrpcDoorOptions extends DoorOptions {
  /** Streams open at once on one connection; default 2048. Further calls wait at the client. */
  readonly concurrentStreamsMax?: number;
}

export async function createGrpcDoor(gateway: Gateway, options: GrpcDoorOptions): Promise<Door> {
  const server = new Server({
    "grpc.max_receive_message_length": options.bodyBytesMax ?? BODY_BYTES_MAX_DEFAULT,
    "grpc.max_send_message_length": -1,
    "grpc.max_concurrent_streams": options.concurrentStreamsMax ?? 2048,
    interceptors: [receiptInterceptor],
  });
  const admission = new Admission(options);
  const context: CallContext = { gateway, options, admission };
  const health = new Health(gateway);
  server.addService(inferenceService(), {
    ...createMethods(gateway, options),
    modelInfer: (call: ServerUnaryCall<Buffer, ModelInferResponse>, callback: sendUnaryData<ModelInferResponse>) =>
      serveUnary(context, call, callback),
    modelStreamInfer: (call: ServerDuplexStream<Buffer, ModelStreamInferResponse>) => serveStream(context, call),
  } as UntypedServiceImplementation);
  server.addService(healthService as unknown as ServiceDefinition, health.handlers);
  addReflection(server);

  const host = options.host ?? "127.0.0.1";
  const port = await bind(server, `${host.includes(":") ? `[${host}]` : host}:${options.port}`);
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
        const timer = setTimeout(() => server.forceShutdown(), graceMs);
        server.tryShutdown(() => {
          clearTimeout(timer);
          resolve();
        });
      });
      return closed;
    },
  };
}

/** The generated service, with ModelInfer's bytes left to us. */
function inferenceService(): ServiceDefinition {
  const keep = (bytes: Buffer): Buffer => bytes;
  return {
    ...GRPCInferenceServiceService,
    modelInfer: {
      ...GRPCInferenceServiceService.modelInfer,
      requestDeserialize: keep,
      responseSerialize: encodeProto,
    },
    modelStreamInfer: { ...GRPCInferenceServiceService.modelStreamInfer, requestDeserialize: keep },
  } as unknown as ServiceDefinition;
}

function serveUnary(
  context: CallContext,
  call: ServerUnaryCall<Buffer, ModelInferResponse>,
  callback: sendUnaryData<ModelInferResponse>,
): void {
  const traceparent = call.metadata.get("traceparent")[0];
  const inFlight = new InferCallInFlight(
    context,
    call.request,
    receiptOf(call.metadata),
    typeof traceparent === "string" ? traceparent : null,
    (error, response) => {
      if (error === null) callback(null, response!);
      else callback(statusOf(error));
    },
  );
  // "cancelled" also follows every normal end; by then the call is over and nothing happens.
  call.on("cancelled", () => inFlight.cancel());
  inFlight.start();
}

function addReflection(server: Server): void {
  const files = FILE_DESCRIPTORS.map((file) => Buffer.from(file, "base64"));
  const definitions = { inference: { fileDescriptorProtos: files }, ...healthService };
  new ReflectionService(definitions as unknown as ConstructorParameters<typeof ReflectionService>[0]).addToServer(
    server,
  );
}

function bind(server: Server, address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, port) => {
      if (error === null) resolve(port);
      else reject(error);
    });
  });
}
