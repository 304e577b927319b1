/** What the HTTP door and the gRPC door have in common. */
import type { ErrorCode } from "../wire/serving-error.js";
import { ServingError } from "../wire/serving-error.js";
import type { Gateway, RepositoryIndexEntry } from "./gateway.js";
import type { AdmissionLimits } from "./requests/admission.js";

export const SERVER_NAME = "rubato";

/** Protocol extensions that work; clients switch features on by this list. */
export const EXTENSIONS: readonly string[] = [
  "binary_tensor_data",
  "model_configuration",
  "model_repository",
  "parameters",
  "statistics",
];

export interface DoorOptions extends AdmissionLimits {
  /** Address to bind; default 127.0.0.1. */
  readonly host?: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Version of the server, shown in its metadata. */
  readonly version: string;
  /** Largest request body in bytes, compressed and not; default 64 MiB. Larger: 413 / RESOURCE_EXHAUSTED. */
  readonly bodyBytesMax?: number;
  /** Threads for JSON and typed contents over 64 KiB; default 2. The first starts with the door, others when needed. */
  readonly parserThreads?: number;
  /** Called once per inference answered, with "ok" or the error's code and reason: for counters. */
  readonly onAnswer?: (protocol: "http" | "grpc", code: ErrorCode | "ok", reason: string) => void;
  /** Called for errors whose cause the client is not shown (bugs): for the log. */
  readonly onInternalError?: (error: ServingError) => void;
}

export const BODY_BYTES_MAX_DEFAULT = 64 * 1024 * 1024;

export interface Door {
  readonly port: number;
  /** Requests in flight and their bytes. */
  readonly inFlight: number;
  readonly inFlightBytes: number;
  /** Bodies waiting for a parser's thread, or on it. */
  readonly parsing?: number;
  /**
   * Refuses new connections, lets what is in flight finish for at most `graceMs`, then cuts the rest.
   * Resolves when nothing is open any more; idempotent.
   */
  close(graceMs: number): Promise<void>;
}

/** Converts anything thrown, and reports bugs. */
export function servingErrorOf(thrown: unknown, options: DoorOptions): ServingError {
  const error = ServingError.from(thrown);
  if (error.code === "internal" && error.details.cause !== undefined) options.onInternalError?.(error);
  return error;
}

/** Whether a name is in the repository, loaded or not. */
export function isKnownModel(gateway: Gateway, name: string): boolean {
  return gateway.repositoryIndex(false).some((entry: RepositoryIndexEntry) => entry.name === name);
}

export function notSupported(what: string): ServingError {
  return new ServingError("unimplemented", `${what} is not supported by this server`, { reason: "unimplemented" });
}
