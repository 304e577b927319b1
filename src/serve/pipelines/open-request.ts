import type { NamedEnds, TensorEnd } from "../../config/server/pipelines/served-pipeline.js";
import { invariant } from "../../core/invariant.js";
import type { ServingError } from "../../wire/serving-error.js";
import type { Tensor } from "../../wire/tensors/tensor.js";
import type { InferCall, InferHandler } from "../gateway.js";
import { AcceleratorTime } from "./accelerator-time.js";
import type { Hold } from "./held-bytes.js";
import { bytesOf, isList, RowStarts, rowAt, type TensorOrList, together } from "./part-tensors.js";

/** Which frame of a request lies around another, and which of its parts it is; see Flow. */
export interface Frames {
  aroundOf(frame: number): number;
  numberOf(frame: number): number;
}

/** A request of a pipeline from its entry until its client has been told: its tensors, and whom to tell. */
export class OpenRequest {
  readonly call: InferCall;
  readonly deadline: number;
  readonly hold: Hold;
  /** Why the part that is just ending did not end well. */
  cause: ServingError | null = null;
  /** Made so far, of all fan-outs. */
  parts = 0;
  readonly acceleratorTime = new AcceleratorTime();
  private readonly inputs: ReadonlyMap<string, Tensor>;
  private readonly width: number;
  private readonly frames: Frames;
  private readonly rowStarts = new RowStarts();
  /** By frame * modules + module: what the module answered there, by name. */
  private readonly answers = new Map<number, ReadonlyMap<string, TensorOrList>>();
  /** By the same of a fan-out, in the frame around its parts: their frames, by number. */
  private readonly made = new Map<number, number[]>();
  private handler: InferHandler | null;

  constructor(call: InferCall, deadline: number, hold: Hold, modules: number, frames: Frames, handler: InferHandler) {
    this.call = call;
    this.deadline = deadline;
    this.hold = hold;
    this.handler = handler;
    this.width = modules;
    this.frames = frames;
    this.inputs = new Map(call.inputs.map((tensor) => [tensor.name, tensor]));
  }

  get isOpen(): boolean {
    return this.handler !== null;
  }

  /** A part of a fan-out begins. */
  began(frame: number, module: number): void {
    const { frames, made } = this;
    const key = frames.aroundOf(frame) * this.width + module;
    const parts = made.get(key) ?? [];
    made.set(key, parts);
    parts[frames.numberOf(frame)] = frame;
  }

  answered(
    frame: number,
    module: number,
    outputs: readonly { readonly name: string; readonly value: TensorOrList }[],
  ): void {
    this.answers.set(frame * this.width + module, new Map(outputs.map(({ name, value }) => [name, value])));
    this.hold.grow(bytesOf(outputs.map(({ value }) => value)));
  }

  /** What an input or output is, for the part in this frame. @returns undefined: it is missing. @throws WrongParts */
  find({ from, list, spec }: NamedEnds, frame: number): TensorOrList | undefined {
    for (const end of from) {
      if (end.gatheredOf < 0) {
        const value = this.at(end, frame);
        if (value !== undefined) return value;
        continue;
      }
      const parts = this.made.get(frame * this.width + end.gatheredOf) ?? [];
      const values = parts.map((part) => this.first(from, part, frame));
      if (values.some((value) => value === undefined)) continue;
      if (list) return values as Tensor[];
      const whole = together(values as Tensor[], spec);
      if (typeof whole === "string") throw new WrongParts(whole);
      return whole;
    }
    return undefined;
  }

  /** Each part has its own of the places. */
  private first(from: readonly TensorEnd[], part: number, frame: number): TensorOrList | undefined {
    for (const end of from) {
      const value =
        end.gatheredOf < 0 ? this.at(end, frame) : this.answers.get(part * this.width + end.module)?.get(end.tensor);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  /** @returns undefined: it was left out, or its module is missing there. */
  at({ module, tensor, up, rowUp }: TensorEnd, frame: number): TensorOrList | undefined {
    const owner = this.climb(frame, up);
    const whole = module < 0 ? this.inputs.get(tensor) : this.answers.get(owner * this.width + module)?.get(tensor);
    if (whole === undefined || rowUp < 0) return whole;
    return rowAt(whole, this.frames.numberOf(this.climb(frame, rowUp)), this.rowStarts);
  }

  /** What the module itself answered in this frame. */
  own(module: number, tensor: string, frame: number): Tensor | undefined {
    const value = this.answers.get(frame * this.width + module)?.get(tensor);
    return value === undefined || isList(value) ? undefined : value;
  }

  private climb(frame: number, up: number): number {
    let at = frame;
    for (let step = 0; step < up; step++) at = this.frames.aroundOf(at);
    return at;
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

/** Tensors of parts that do not go together. */
export class WrongParts extends Error {
  override readonly name = "WrongParts";
}
