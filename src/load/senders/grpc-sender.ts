import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import {
  GRPCInferenceServiceService,
  type InferParameter,
  ModelInferRequest,
  type ModelMetadataResponse,
} from "../../wire/proto/inference.js";
import { ERROR_CODES, ServingError } from "../../wire/serving-error.js";
import { type Answer, answerFailed, answerOf, GRPC_OK, readErrorBody } from "../answer.js";
import type { Sample } from "../inputs/inputs.js";
import { type ModelMetadata, parseMetadata } from "../inputs/metadata.js";
import type { AnswerHandler, Sender, SenderOptions, Ticket } from "./sender.js";

const { modelInfer, modelMetadata } = GRPCInferenceServiceService;
const asIs = (bytes: Buffer): Buffer => bytes;

/**
 * Unary gRPC calls over several channels in turn.
 *
 * Requests are encoded once and answers are not decoded: grpc-js's client is the bottleneck (6,000 to 11,000 calls a
 * second and core), and one HTTP/2 connection also shares one flow-control window.
 *
 * The deadline travels twice: as parameter `timeout`, which the server counts and answers at with its reason, and as the
 * gRPC deadline, at the client's own limit. A gRPC deadline equal to the SLO would end each late call here with a bare
 * DEADLINE_EXCEEDED, just before the server's answer that says why.
 */
export class GrpcSender implements Sender {
  readonly #options: SenderOptions;
  readonly #onAnswer: AnswerHandler;
  readonly #clients: Client[] = [];
  #bodies: readonly Buffer[] = [];
  #outstanding = 0;
  #turn = 0;
  readonly #headers = new Metadata();

  constructor(options: SenderOptions, onAnswer: AnswerHandler) {
    this.#options = options;
    this.#onAnswer = onAnswer;
    for (let channel = 0; channel < options.channels; channel++) {
      const client = new Client(options.target.origin, credentials.createInsecure(), {
        "grpc.use_local_subchannel_pool": 1, // else channels to one address share one connection
        "grpc.max_receive_message_length": options.responseBytesMax,
        "grpc.max_send_message_length": -1,
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.max_reconnect_backoff_ms": 1000,
      });
      this.#clients.push(client);
    }
  }

  async metadata(): Promise<ModelMetadata> {
    const { model: name, version, url } = this.#options.target;
    const message = await new Promise<ModelMetadataResponse>((resolve, reject) => {
      this.#clients[0]!.makeUnaryRequest(
        modelMetadata.path,
        modelMetadata.requestSerialize,
        modelMetadata.responseDeserialize,
        { name, version },
        new Metadata(),
        { deadline: Date.now() + 10_000 },
        (error, reply) => {
          if (error === null && reply !== undefined) return resolve(reply);
          const code = error?.code === status.NOT_FOUND ? "not-found" : "unavailable";
          reject(new ServingError(code, `${url}: ${error?.message}`, { cause: error }));
        },
      );
    });
    const inputs = message.inputs.map((input) => ({ ...input, shape: input.shape.map(Number) }));
    return parseMetadata(url, { inputs }, true);
  }

  prepare(samples: readonly Sample[]): void {
    this.#bodies = samples.map((sample) => this.#encode(sample));
  }

  send(sample: number, ticket: Ticket): boolean {
    if (this.#outstanding >= this.#options.outstandingMax) return false;
    this.#outstanding++;
    this.#turn = (this.#turn + 1) % this.#clients.length;
    const client = this.#clients[this.#turn]!;
    client.makeUnaryRequest(
      modelInfer.path,
      asIs,
      asIs,
      this.#bodies[sample]!,
      this.#headers,
      { deadline: Date.now() + this.#options.clientTimeoutMs },
      (error) => {
        this.#outstanding--;
        this.#onAnswer(ticket, error === null ? GRPC_OK : answerOfError(error), null);
      },
    );
    return true;
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.close();
  }

  #encode(sample: Sample): Buffer {
    const { target, timeoutUs } = this.#options;
    const parameters: Record<string, InferParameter> = {};
    for (const [key, value] of Object.entries(sample.parameters)) parameters[key] = parameterOf(value);
    if (timeoutUs !== null) parameters.timeout = parameterOf(timeoutUs);
    const message = ModelInferRequest.encode({
      modelName: target.model,
      modelVersion: target.version,
      id: "",
      parameters,
      inputs: sample.tensors.map((tensor) => ({
        name: tensor.name,
        datatype: tensor.datatype,
        shape: tensor.shape.map(BigInt),
        parameters: {},
        contents: undefined,
      })),
      outputs: [],
      rawInputContents: sample.tensors.map((tensor) => tensor.data),
    });
    return Buffer.from(message.finish());
  }
}

function parameterOf(value: string | number | boolean): InferParameter {
  if (typeof value === "boolean") return { parameterChoice: { $case: "boolParam", value } };
  if (typeof value === "string") return { parameterChoice: { $case: "stringParam", value } };
  if (Number.isSafeInteger(value)) return { parameterChoice: { $case: "int64Param", value: BigInt(value) } };
  return { parameterChoice: { $case: "doubleParam", value } };
}

/** gRPC code -> the HTTP status of the same error; codes that are not ours count as the server's error. */
const HTTP_OF_GRPC = new Map<number, number>(
  // Two codes map to several HTTP statuses; the one that tells outcomes apart wins.
  [...Object.values(ERROR_CODES).map(({ grpc, http }) => [grpc, http] as const), [3, 400], [8, 429], [12, 501]],
);

function answerOfError(error: ServiceError): Answer {
  const name = status[error.code] ?? `CODE_${error.code}`;
  if (error.code === status.UNAVAILABLE && /ECONNREFUSED|ENOTFOUND|No connection established/.test(error.details))
    return answerFailed("connection-refused", "connection-refused", "", error.details);
  if (error.code === status.UNAVAILABLE && /ECONNRESET|Connection dropped|EPIPE/.test(error.details))
    return answerFailed("connection-lost", "connection-lost", "", error.details);
  // This client cancels nothing: a server that shuts down resets its streams so.
  if (error.code === status.CANCELLED) return answerFailed("connection-lost", name, "", error.details);
  if (error.code === status.RESOURCE_EXHAUSTED && /Received message larger than max/.test(error.details))
    return answerFailed("response-too-large", "response-too-large", "", error.details);
  const said = readErrorBody(error.details);
  const inTrailer = error.metadata?.get("rubato-reason")[0] ?? error.metadata?.get("reason")[0];
  const reason = typeof inTrailer === "string" ? inTrailer : said.reason;
  return answerOf(HTTP_OF_GRPC.get(error.code) ?? 500, name, reason, said.text);
}
