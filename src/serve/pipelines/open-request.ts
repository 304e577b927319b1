import { invariant } from "../../core/invariant.js";
import type { ServingError } from "../../wire/serving-error.js";
import type { Tensor } from "../../wire/tensors/tensor.js";
import type { InferCall, InferHandler } from "../gateway.js";
import type { Hold } from "./held-bytes.js";

/** A request of a pipeline from its entry until its client has been told: its tensors, and whom to tell. */
export class OpenRequest {
  readonly call: InferCall;
  readonly deadline: number;
  readonly hold: Hold;
  /** Why the part that is just ending did not end well. */
  cause: ServingError | null = null;
  private readonly inputs: ReadonlyMap<string, Tensor>;
  /** By module: what it answered, by name; undefined: nothing yet. */
  private readonly answers: (ReadonlyMap<string, Tensor> | undefined)[];
  private handler: InferHandler | null;

  constructor(call: InferCall, deadline: number, hold: Hold, modules: number, handler: InferHandler) {
    this.call = call;
    this.deadline = deadline;
    this.hold = hold;
    this.handler = handler;
    this.inputs = byName(call.inputs);
    this.answers = new Array<ReadonlyMap<string, Tensor> | undefined>(modules).fill(undefined);
  }

  get isOpen(): boolean {
    return this.handler !== null;
  }

  /** @param module REQUEST: of the request itself. @returns undefined: it was left out, or its module is missing. */
  tensor(module: number, name: string): Tensor | undefined {
    return (module < 0 ? this.inputs : this.answers[module])?.get(name);
  }

  answered(module: number, outputs: readonly Tensor[]): void {
    this.answers[module] = byName(outputs);
    this.hold.grow(bytesOf(outputs));
  }

  /** Whom to tell, once. */
  close(isWhole: boolean): InferHandler {
    const { handler } = this;
    invariant(handler !== null, "a request of a pipeline ended twice");
    this.handler = null;
    this.hold.end(isWhole);
    return handler;
  }
}

const byName = (tensors: readonly Tensor[]): ReadonlyMap<string, Tensor> =>
  new Map(tensors.map((tensor) => [tensor.name, tensor]));

export const bytesOf = (tensors: readonly Tensor[]): number =>
  tensors.reduce((sum, { data }) => sum + data.byteLength, 0);
