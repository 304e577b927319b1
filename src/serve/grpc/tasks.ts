/** The service rubato.Tasks: tasks of elastic models. */
import type { handleUnaryCall, ServerUnaryCall, ServiceDefinition, sendUnaryData } from "@grpc/grpc-js";
import { type BodyPool, DECODE_INLINE_BYTES_MAX } from "../../wire/infer/body-pool.js";
import { decodeProto, type InferMessage, readInferMessage } from "../../wire/infer/infer-proto.js";
import { scanInferRequest } from "../../wire/infer/proto-scan.js";
import type { ListTasksRequest, TaskRequest } from "../../wire/proto/tasks.js";
import { ListTasksResponse, Task, TasksService } from "../../wire/proto/tasks.js";
import { ServingError } from "../../wire/serving-error.js";
import { type DoorOptions, servingErrorOf } from "../door.js";
import type { Gateway, TaskStatus } from "../gateway.js";
import { asTaskFault } from "../task-fault.js";
import { receptionOf } from "./reception.js";
import { statusOf } from "./status.js";
import { readingAll } from "./unreadable.js";

/** Its message is as large as an inference's, and counts as one. */
export const REGISTER_TASK_PATH = TasksService.registerTask.path;

/** Registrations come as bytes, so that they are looked at before anything is decoded. */
export const tasksService = (): ServiceDefinition =>
  ({
    ...readingAll(TasksService),
    registerTask: { ...TasksService.registerTask, requestDeserialize: (message: Buffer): Buffer => message },
  }) as unknown as ServiceDefinition;

export function taskMethods(gateway: Gateway, options: DoorOptions, bodyPool: BodyPool) {
  const unary =
    <Request, Response>(
      answer: (request: Request, call: ServerUnaryCall<Request, Response>) => Promise<Response>,
    ): handleUnaryCall<Request, Response> =>
    (call: ServerUnaryCall<Request, Response>, callback: sendUnaryData<Response>) => {
      answer(call.request, call).then(
        (response) => callback(null, response),
        (thrown: unknown) => callback(statusOf(servingErrorOf(thrown, options))),
      );
    };
  return {
    registerTask: unary(async (bytes: Buffer, call: ServerUnaryCall<Buffer, Task>): Promise<Task> => {
      // Its place ends with its stream.
      receptionOf(call.metadata).inlet.take();
      const { model, id, inputs, parameters } = await decoded(bytes, bodyPool).catch(asTaskFault);
      checkModel(model);
      gateway.tasks.check(model);
      return taskProto(await gateway.tasks.register(model, id, { tensors: inputs, parameters }));
    }),
    listTasks: unary(async ({ modelName }: ListTasksRequest) =>
      ListTasksResponse.fromPartial({ tasks: gateway.tasks.list(checkModel(modelName)).map(taskProto) }),
    ),
    getTask: unary(async ({ modelName, name }: TaskRequest) =>
      taskProto(gateway.tasks.get(checkModel(modelName), name)),
    ),
    deleteTask: unary(async ({ modelName, name }: TaskRequest) =>
      taskProto(await gateway.tasks.remove(checkModel(modelName), name)),
    ),
  };
}

function checkModel(name: string): string {
  if (name !== "") return name;
  throw new ServingError("invalid-argument", "model_name must be the name of a model, got the empty string");
}

async function decoded(bytes: Buffer, bodyPool: BodyPool): Promise<InferMessage> {
  if (scanInferRequest(bytes).walkedBytes <= DECODE_INLINE_BYTES_MAX) return readInferMessage(decodeProto(bytes));
  return new Promise((resolve, reject) => {
    bodyPool.decodeProto(bytes, (error, message) => (error === null ? resolve(message!) : reject(error)), undefined);
  });
}

function taskProto({ model, version, profilingVersion, profiling, gammas, classes, ...rest }: TaskStatus): Task {
  return Task.fromPartial({
    ...rest,
    modelName: model,
    version: BigInt(version),
    profilingVersion: BigInt(profilingVersion),
    profiling:
      profiling === null
        ? undefined
        : { done: BigInt(profiling.done), of: BigInt(profiling.of), leftS: profiling.leftS ?? undefined },
    classes: [...classes],
    gammas: gammas.map(({ gamma, accuracy, latencies }) => ({
      gamma: BigInt(gamma),
      accuracy,
      latencies: latencies.map(({ batchSize, us }) => ({ batchSize: BigInt(batchSize), us })),
    })),
  });
}
