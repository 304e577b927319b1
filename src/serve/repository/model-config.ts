/**
 * A ModelSpec in the shapes of the protocol: metadata, and Triton's model configuration, which load tools read before
 * they send anything. Dimensions of the configuration leave the batch dimension out where the model batches.
 */
import path from "node:path";
import type { ModelSpec, TensorSpec } from "../../config/model.js";
import { DataType, ModelConfig, ModelInstanceGroup_Kind } from "../../wire/proto/model_config.js";

export interface TensorMetadata {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
}

export interface ModelMetadata {
  readonly name: string;
  readonly versions: readonly string[];
  readonly platform: string;
  readonly inputs: readonly TensorMetadata[];
  readonly outputs: readonly TensorMetadata[];
  /** What this server adds: the promise a client may rely on. */
  readonly properties: Readonly<Record<string, string>>;
}

const tensorMetadata = ({ name, datatype, shape, clientShape }: TensorSpec): TensorMetadata => ({
  name,
  datatype,
  shape: clientShape ?? shape,
});

export function modelMetadata(model: ModelSpec): ModelMetadata {
  const properties: Record<string, string> = model.policy === "" ? {} : { policy: model.policy };
  if (model.sloUs !== null) properties.slo_us = String(model.sloUs);
  if (model.apps.length > 0) properties.apps = model.apps.join(",");
  return {
    name: model.name,
    versions: model.versions,
    platform: model.platform,
    inputs: model.inputs.map(tensorMetadata),
    outputs: model.outputs.map(tensorMetadata),
    properties,
  };
}

const BACKENDS: Record<ModelSpec["platform"], string> = {
  onnx_onnxv1: "onnxruntime",
  rubato_emulated: "rubato",
  rubato_pipeline: "rubato",
};

function dataType(datatype: string): DataType {
  const name = `TYPE_${datatype === "BYTES" ? "STRING" : datatype}` as keyof typeof DataType;
  return DataType[name] ?? DataType.TYPE_INVALID;
}

/** Triton knows one way to batch: every input and output has the batch as its first dimension, which `dims` leaves out. */
const isTritonBatch = ({ batchSizeMax, inputs, outputs }: ModelSpec): boolean =>
  batchSizeMax > 0 && [...inputs, ...outputs].every(({ batchAxis }) => batchAxis === 0);

function dims(model: ModelSpec, { shape, clientShape = shape }: TensorSpec): readonly number[] {
  return isTritonBatch(model) ? clientShape.slice(1) : clientShape;
}

/** A model that batches in another way shows whole shapes and a max_batch_size of 0, and says here how it batches. */
function batchParameters(model: ModelSpec): Record<string, string> {
  if (model.batchSizeMax === 0 || isTritonBatch(model)) return {};
  const parameters: Record<string, string> = { "rubato.max_batch_size": String(model.batchSizeMax) };
  for (const { name, batchAxis } of [...model.inputs, ...model.outputs])
    parameters[`rubato.batch_axis.${name}`] = batchAxis === null ? "none" : String(batchAxis);
  return parameters;
}

/** Accelerators by their group, as far as they serve. */
type Groups = readonly { readonly group: string; readonly serving: number }[];

/** The configuration as the proto has it; instances are the accelerators that serve in its group now, at least one. A model served with a deadline batches dynamically: load tools look for that. */
export function modelConfig(model: ModelSpec, groups: Groups): ModelConfig {
  const count = Math.max(1, groups.find(({ group }) => group === model.group)?.serving ?? 0);
  const parameters: Record<string, { stringValue: string }> = {};
  for (const [key, value] of Object.entries({ ...model.parameters, ...batchParameters(model) }))
    parameters[key] = { stringValue: value };
  const timeoutUs = model.sloUs ?? model.defaultTimeoutUs;
  return ModelConfig.fromPartial({
    name: model.name,
    platform: model.platform,
    backend: BACKENDS[model.platform],
    defaultModelFilename: model.file === null ? "" : path.basename(model.file),
    versionPolicy: {
      policyChoice:
        model.versions.length === 1
          ? { $case: "latest", value: { numVersions: 1 } }
          : { $case: "specific", value: { versions: model.versions.map(BigInt) } },
    },
    maxBatchSize: isTritonBatch(model) ? model.batchSizeMax : 0,
    input: model.inputs.map((input) => ({
      name: input.name,
      dataType: dataType(input.datatype),
      dims: dims(model, input).map(BigInt),
      optional: input.optional,
    })),
    output: model.outputs.map((output) => ({
      name: output.name,
      dataType: dataType(output.datatype),
      dims: dims(model, output).map(BigInt),
    })),
    instanceGroup: model.group === "" ? [] : [{ name: model.group, count, kind: ModelInstanceGroup_Kind.KIND_CPU }],
    ...(model.batchSizeMax > 0
      ? {
          schedulingChoice: {
            $case: "dynamicBatching" as const,
            value: {
              preferredBatchSize: model.batchSizeFixed === null ? [] : [model.batchSizeFixed],
              defaultQueuePolicy: {
                defaultTimeoutMicroseconds: BigInt(timeoutUs),
                allowTimeoutOverride: model.timeoutOverride !== "never",
                maxQueueSize: model.queueRequestsMax,
              },
            },
          },
        }
      : {}),
    parameters,
    modelTransactionPolicy: { decoupled: false },
  });
}

/** Beyond 2^53 as text, as protobuf's own JSON has every 64-bit number: a number would be another version. */
const jsonVersion = (version: string): number | string =>
  Number.isSafeInteger(Number(version)) ? Number(version) : version;

/** The configuration as REST shows it: snake case, enums by name, 64-bit fields as numbers. */
export function modelConfigJson(model: ModelSpec, groups: Groups): Record<string, unknown> {
  const config = modelConfig(model, groups);
  const dynamic = config.schedulingChoice?.value;
  const policy = dynamic?.defaultQueuePolicy;
  return {
    name: config.name,
    platform: config.platform,
    backend: config.backend,
    version_policy:
      model.versions.length === 1
        ? { latest: { num_versions: 1 } }
        : { specific: { versions: model.versions.map(jsonVersion) } },
    max_batch_size: config.maxBatchSize,
    input: config.input.map((input) => ({
      name: input.name,
      data_type: DataType[input.dataType],
      format: "FORMAT_NONE",
      dims: input.dims.map(Number),
      is_shape_tensor: false,
      allow_ragged_batch: input.allowRaggedBatch,
      optional: input.optional,
    })),
    output: config.output.map((output) => ({
      name: output.name,
      data_type: DataType[output.dataType],
      dims: output.dims.map(Number),
      label_filename: output.labelFilename,
      is_shape_tensor: false,
    })),
    instance_group: config.instanceGroup.map((group) => ({
      name: group.name,
      kind: ModelInstanceGroup_Kind[group.kind],
      count: group.count,
      gpus: group.gpus,
    })),
    default_model_filename: config.defaultModelFilename,
    ...(dynamic
      ? {
          dynamic_batching: {
            preferred_batch_size: dynamic.preferredBatchSize,
            max_queue_delay_microseconds: Number(dynamic.maxQueueDelayMicroseconds),
            preserve_ordering: dynamic.preserveOrdering,
            priority_levels: Number(dynamic.priorityLevels),
            default_priority_level: Number(dynamic.defaultPriorityLevel),
            ...(policy
              ? {
                  default_queue_policy: {
                    timeout_action: "REJECT",
                    default_timeout_microseconds: Number(policy.defaultTimeoutMicroseconds),
                    allow_timeout_override: policy.allowTimeoutOverride,
                    max_queue_size: policy.maxQueueSize,
                  },
                }
              : {}),
          },
        }
      : {}),
    parameters: Object.fromEntries(
      Object.entries(config.parameters).map(([key, value]) => [key, { string_value: value.stringValue }]),
    ),
    model_transaction_policy: { decoupled: false },
  };
}
