import type { Answer } from "../answer.js";
import type { Sample } from "../inputs/inputs.js";
import type { ModelMetadata } from "../inputs/metadata.js";
import type { Target } from "../target.js";

/** One request under way. */
export interface Ticket {
  readonly target: number;
  /** When it was to be sent, µs from the start of the run; latency counts from here. */
  readonly intendedUs: number;
}

export interface SenderOptions {
  readonly target: Target;
  /** Sent along as request parameter `timeout`; null: the server's own SLO applies. */
  readonly timeoutUs: number | null;
  /** How long the client waits for an answer. */
  readonly clientTimeoutMs: number;
  /** HTTP: connections, and so requests under way; gRPC: requests under way. */
  readonly outstandingMax: number;
  /** gRPC: channels, each a connection. */
  readonly channels: number;
  readonly responseBytesMax: number;
  /** HTTP tensors as raw bytes or as JSON; "auto" asks the server. */
  readonly encoding: "auto" | "binary" | "json";
  /** HTTP: what came with a success is handed on with it. Default: it is only counted. */
  readonly keepsBodies?: boolean;
}

/** What came with a success. */
export interface AnswerBody {
  readonly bytes: Buffer;
  /** Of its JSON, behind which binary tensors follow. */
  readonly jsonBytes: number;
}

/** Sends the requests of one target. Life: `metadata`, `prepare` once, any number of `send`, `close`. */
export interface Sender {
  /** @throws ServingError unavailable, not-found: the server cannot be reached or does not have the model. */
  metadata(): Promise<ModelMetadata>;
  /** Encodes all samples; `send` refers to them by number. */
  prepare(samples: readonly Sample[], metadata: ModelMetadata): void;
  /**
   * Starts a request; its answer goes to the handler given at construction, exactly once and never before `send` returns.
   *
   * @returns false when the limit of requests under way is reached: then nothing was sent.
   */
  send(sample: number, ticket: Ticket): boolean;
  close(): Promise<void>;
}

/** @param body null: it was no success, or is not asked for. */
export type AnswerHandler = (ticket: Ticket, answer: Answer, body: AnswerBody | null) => void;
