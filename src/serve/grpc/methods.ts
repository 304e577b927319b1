/** The methods of GRPCInferenceService but inference: health, metadata, configuration, statistics, repository. */
import type { handleUnaryCall, ServerUnaryCall, sendUnaryData } from "@grpc/grpc-js";
import type { ParameterValue } from "../../wire/infer-parameters.js";
import {
  type GRPCInferenceServiceServer,
  ModelConfigResponse,
  ModelMetadataResponse,
  type ModelRepositoryParameter,
  ModelStatisticsResponse,
  ServerMetadataResponse,
  type StatisticDuration as StatisticDurationProto,
} from "../../wire/proto/inference.js";
import { ServingError } from "../../wire/serving-error.js";
import { type DoorOptions, EXTENSIONS, isKnownModel, notSupported, SERVER_NAME, servingErrorOf } from "../door.js";
import type { Gateway, ModelStatistics, StatisticDuration } from "../gateway.js";
import { modelConfig, modelMetadata } from "../repository/model-config.js";
import { statusOf } from "./status.js";

export function createMethods(
  gateway: Gateway,
  options: DoorOptions,
): Omit<GRPCInferenceServiceServer, "modelInfer" | "modelStreamInfer"> {
  const unary =
    <Request, Response>(
      answer: (request: Request) => Response | Promise<Response>,
    ): handleUnaryCall<Request, Response> =>
    (call: ServerUnaryCall<Request, Response>, callback: sendUnaryData<Response>) => {
      const fail = (thrown: unknown): void => callback(statusOf(servingErrorOf(thrown, options)));
      try {
        const response = answer(call.request);
        if (response instanceof Promise) response.then((value) => callback(null, value), fail);
        else callback(null, response);
      } catch (thrown) {
        fail(thrown);
      }
    };
  const refuse = <Request, Response>(what: string): handleUnaryCall<Request, Response> =>
    unary<Request, Response>(() => {
      throw notSupported(what);
    });
  const sharedMemory = "shared memory (system_shared_memory, cuda_shared_memory)";

  return {
    serverLive: unary(() => ({ live: gateway.live })),
    serverReady: unary(() => ({ ready: gateway.ready })),
    modelReady: unary(({ name, version }) => ({ ready: isModelReady(gateway, name, version) })),
    serverMetadata: unary(() =>
      ServerMetadataResponse.fromPartial({ name: SERVER_NAME, version: options.version, extensions: [...EXTENSIONS] }),
    ),
    modelMetadata: unary(({ name, version }) => {
      const { inputs, outputs, ...metadata } = modelMetadata(gateway.model(name, version));
      const tensor = (entry: (typeof inputs)[number]) => ({ ...entry, shape: entry.shape.map(BigInt) });
      return ModelMetadataResponse.fromPartial({
        ...metadata,
        versions: [...metadata.versions],
        inputs: inputs.map(tensor),
        outputs: outputs.map(tensor),
      });
    }),
    modelConfig: unary(({ name, version }) =>
      ModelConfigResponse.fromPartial({ config: modelConfig(gateway.model(name, version), gateway.scaling()) }),
    ),
    modelStatistics: unary(({ name, version }) => {
      if (name !== "") gateway.model(name, version);
      return ModelStatisticsResponse.fromPartial({
        modelStats: gateway.statistics(name, version).map(statisticsProto),
      });
    }),
    repositoryIndex: unary(({ ready }) => ({ models: gateway.repositoryIndex(ready).map((entry) => ({ ...entry })) })),
    repositoryModelLoad: unary(async (request) => {
      const name = repositoryModel(gateway, request);
      await gateway.load(name, loadParameters(request.parameters));
      return { modelName: name, isLoaded: true };
    }),
    repositoryModelUnload: unary(async (request) => {
      const name = repositoryModel(gateway, request);
      await gateway.unload(name);
      return { modelName: name, isUnloaded: true };
    }),
    systemSharedMemoryStatus: refuse(sharedMemory),
    systemSharedMemoryRegister: refuse(sharedMemory),
    systemSharedMemoryUnregister: refuse(sharedMemory),
    cudaSharedMemoryStatus: refuse(sharedMemory),
    cudaSharedMemoryRegister: refuse(sharedMemory),
    cudaSharedMemoryUnregister: refuse(sharedMemory),
    traceSetting: refuse("tracing by request (trace)"),
    logSettings: refuse("changing log settings (logging)"),
  };
}

/** An unknown model is not ready, as with Triton's newest; over HTTP it is not found. */
function isModelReady(gateway: Gateway, name: string, version: string): boolean {
  try {
    return gateway.modelReady(name, version);
  } catch (error) {
    if (error instanceof ServingError && error.code === "not-found") return false;
    throw error;
  }
}

/** KServe's own message has the model's name where Triton's has the repository's. */
function repositoryModel(gateway: Gateway, request: { repositoryName: string; modelName: string }): string {
  const { repositoryName, modelName } = request;
  if (modelName !== "") return modelName;
  if (repositoryName !== "" && isKnownModel(gateway, repositoryName)) return repositoryName;
  throw repositoryName === ""
    ? new ServingError("invalid-argument", "model_name must be the name of a model, got the empty string")
    : new ServingError("not-found", `model '${repositoryName}' is not in the repository`, { reason: "unknown-model" });
}

/** Files travel as bytes here and as base64 over HTTP; behind the door they are base64. */
function loadParameters(parameters: Record<string, ModelRepositoryParameter>): Record<string, ParameterValue> {
  const plain: Record<string, ParameterValue> = Object.create(null);
  for (const [key, { parameterChoice }] of Object.entries(parameters)) {
    if (parameterChoice === undefined)
      throw new ServingError("invalid-argument", `parameter '${key}' of the request must have a value, got none`);
    const { value } = parameterChoice;
    plain[key] =
      value instanceof Uint8Array
        ? Buffer.from(value).toString("base64")
        : typeof value === "bigint"
          ? Number(value)
          : value;
  }
  return plain;
}

const duration = ({ count, ns }: StatisticDuration): StatisticDurationProto => ({
  count: BigInt(Math.round(count)),
  ns: BigInt(Math.round(ns)),
});
const NONE: StatisticDuration = { count: 0, ns: 0 };

function statisticsProto(model: ModelStatistics) {
  return {
    name: model.name,
    version: model.version,
    lastInference: BigInt(Math.round(model.lastInferenceMs)),
    inferenceCount: BigInt(model.inferenceCount),
    executionCount: BigInt(model.executionCount),
    inferenceStats: {
      success: duration(model.success),
      fail: duration(model.fail),
      queue: duration(model.queue),
      computeInput: duration(model.computeInput),
      computeInfer: duration(model.computeInfer),
      computeOutput: duration(model.computeOutput),
      cacheHit: duration(NONE),
      cacheMiss: duration(NONE),
    },
    batchStats: model.batches.map((batch) => ({
      batchSize: BigInt(batch.batchSize),
      computeInput: duration(batch.computeInput),
      computeInfer: duration(batch.computeInfer),
      computeOutput: duration(batch.computeOutput),
    })),
  };
}
