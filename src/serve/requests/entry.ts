import type { Clock } from "../../wire/clock/clock.js";
import type { ServingError } from "../../wire/serving-error.js";
import type { Sliced } from "../../wire/sliced.js";
import type { InferCall, InferHandler } from "../gateway.js";
import type { ServedModel } from "../models/served-model.js";
import type { TaskTable } from "../models/tasks/task-table.js";
import type { LiveRequests } from "./live-requests.js";
import { shareGroup } from "./share-group.js";
import { inputValues } from "./values/input-values.js";
import { toClientShapes, toModelShapes } from "./values/reshape.js";
import { validateInputs, validateOutputs } from "./values/validate-inputs.js";

/** Its task is its kind, its utility its weight; the task's promise is its timeout, where it names none. */
function ofTask(tasks: TaskTable, call: InferCall): InferCall {
  const { traits, sloUs } = tasks.resolve(call.parameters);
  return { ...call, traits, timeoutUs: call.timeoutUs ?? sloUs };
}

/** From a call to a request: held against its model, put into its share group, let in. Calls of doors and parts of pipelines come this way. */
export class Entry {
  private readonly requests: LiveRequests;
  private readonly clock: Clock;
  private readonly refusalOf: (call: InferCall, thrown: unknown) => ServingError;

  /** @param refusalOf of what is thrown after `enter` has returned. */
  constructor(requests: LiveRequests, clock: Clock, refusalOf: Entry["refusalOf"]) {
    this.requests = requests;
    this.clock = clock;
    this.refusalOf = refusalOf;
  }

  /** @returns cancels it. @throws ServingError what is refused at once. */
  enter(model: ServedModel, call: InferCall, handler: InferHandler): () => void {
    const { spec } = model;
    const inputs = toModelShapes(spec, call.inputs);
    const rows = validateInputs(spec, inputs);
    validateOutputs(spec, call.outputs);
    const enter = (valueKeys: ReadonlyMap<string, string>): (() => void) => {
      const { key, extent } = shareGroup(spec, inputs, valueKeys, model.areSizesTogether);
      const named = model.tasks === null ? call : ofTask(model.tasks, call);
      const reshaped = inputs === call.inputs ? named : { ...named, inputs };
      if (!model.areSizesTogether || extent === null)
        return this.requests.infer(model, reshaped, { key, rows, extent }, toClientShapes(spec, handler));
      const isOfSize = call.traits === undefined && call.parameters.app === undefined;
      const told = isOfSize ? { ...reshaped, traits: model.apps.traitsOfSize(extent) } : reshaped;
      return this.requests.infer(model, told, { key, rows, extent: null }, toClientShapes(spec, handler));
    };
    const values = inputValues(spec, inputs);
    const first = values.next();
    return first.done === true ? enter(first.value) : this.lookOn(values, enter, call, handler);
  }

  /** Looks at the rest of large values, a slice in each turn of the event loop, and lets the request in. */
  private lookOn(
    values: Sliced<ReadonlyMap<string, string>>,
    enter: (valueKeys: ReadonlyMap<string, string>) => () => void,
    call: InferCall,
    handler: InferHandler,
  ): () => void {
    let isCancelled = false;
    let cancel: (() => void) | null = null;
    const go = (): void => {
      if (isCancelled) return;
      try {
        const slice = values.next();
        if (slice.done === true) cancel = enter(slice.value);
        else this.clock.soon(go);
      } catch (error) {
        handler.onError(this.refusalOf(call, error));
      }
    };
    this.clock.soon(go);
    return () => {
      isCancelled = true;
      cancel?.();
    };
  }
}
