/** What the worker's entry asks of the accelerators of its process; one implementation per kind. */
import type { TaskBinding, TaskTrial, TrialResult } from "../config/elastic.js";
import type { ModelSpec } from "../config/model.js";
import type { Fault, LogLevel, ToWorker } from "../wire/worker-protocol.js";
import type { Timing } from "./timing.js";

export type Hello = Extract<ToWorker, { kind: "hello" }>;
export type TimeRequest = Extract<ToWorker, { kind: "time" }>;

export interface HostOutput {
  finished(slot: number, batch: number, header: Uint8Array, parts: readonly Uint8Array[]): void;
  /** The model would not run it. @param error says whose fault that is; anything but a ServingError is the server's. */
  failed(slot: number, batch: number, error: unknown): void;
  log(level: LogLevel, message: string): void;
  /** Nothing of an earlier frame waits to be written: another thread may write one now. */
  isClear(): boolean;
}

export interface AcceleratorHost {
  readonly runtime: string;
  readonly provider: string;
  /** Resolves when it can take work. */
  start(): Promise<void>;
  /** @param tasks of an elastic model. */
  load(handle: number, model: ModelSpec, warmUpMs: number, tasks: readonly TaskBinding[]): Promise<void>;
  /** Its tasks from now on. @throws ServingError where it is not elastic, or one cannot be read: then nothing has changed. */
  bind(handle: number, tasks: readonly TaskBinding[]): Promise<void>;
  /** @throws ServingError with the runtime's text. */
  trial(handle: number, trial: TaskTrial): Promise<TrialResult>;
  unload(handle: number): Promise<void>;
  time(request: TimeRequest): Promise<Timing>;
  /** Header and payload of a run record; the memory is the host's from here on. */
  run(header: Buffer, payload: Buffer): void;
  /** True if the batch had not begun and never will; false if it runs, has ended or is unknown. */
  cancel(slot: number, batch: number): boolean;
  /** @throws ServingError unimplemented for accelerators that are real. */
  fault(slot: number, fault: Fault): void;
  /** Resolves when nothing runs and nothing waits, everything released. */
  shutdown(): Promise<void>;
}
