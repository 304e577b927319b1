/** A pipeline held against the models that it runs: where each tensor comes from, and whether it fits where it goes. */
import { sloUsFromMs } from "../../../core/time.js";
import type { BudgetSpec } from "../../../system/budget.js";
import { type ModuleSpec, Pipeline } from "../../../system/pipeline.js";
import { type FieldPath, nearest } from "../../config-error.js";
import type { ModelSpec, TensorSpec } from "../../model.js";
import { budgetSpec, moduleSpecs } from "../../pipeline-modules.js";
import { IssueList } from "../../source.js";
import { ModelFileError } from "../model-file.js";
import type { ReadPipeline } from "./pipeline-file.js";

/** Where a tensor comes from. */
export interface TensorEnd {
  /** Index of the module; REQUEST: it comes with the request. */
  readonly module: number;
  readonly tensor: string;
}
export const REQUEST = -1;

export interface NamedEnd {
  readonly name: string;
  readonly from: TensorEnd;
}

export interface ServedModule extends ModuleSpec {
  readonly model: string;
  readonly inputs: readonly NamedEnd[];
  /** What others take of its outputs; empty: nobody takes any. */
  readonly outputs: readonly string[];
}

export interface PipelineSpec {
  /** As clients see it: a model that does not batch. */
  readonly client: ModelSpec;
  readonly modules: readonly ServedModule[];
  readonly budget: BudgetSpec;
  readonly outputs: readonly NamedEnd[];
  readonly requestsMax: number;
  readonly bytesMax: number;
}

/**
 * @param folder of its file. @param modelOf the model of a name, or why it cannot be had.
 * @throws ModelFileError listing every problem; those between two ends name both.
 */
export function resolvePipeline(
  name: string,
  folder: string,
  read: ReadPipeline,
  modelOf: (name: string) => ModelSpec | string,
): PipelineSpec {
  const resolver = new Resolver(read, modelOf);
  const { file } = read;
  const modules = resolver.modules();
  const outputs = resolver.outputs();
  const inputs = resolver.requestInputs();
  resolver.throwIfAny();
  const sloUs = sloUsFromMs(file.slo_ms);
  const budget = budgetSpec(file.budget);
  return {
    client: {
      name,
      version: "1",
      versions: ["1"],
      platform: "rubato_pipeline",
      file: null,
      folder,
      inputs,
      outputs: outputs.map(({ name: output, from }) => plain(output, resolver.outputAt(from)!, false)),
      batchSizeMax: 0,
      batchSizeFixed: null,
      sloUs,
      defaultTimeoutUs: sloUs,
      timeoutMaxUs: sloUsFromMs(file.timeout_max_ms),
      policy: "",
      policyOptions: {},
      group: "",
      queueRequestsMax: file.queue.requests_max,
      queueBytesMax: file.queue.bytes_max,
      emulated: null,
      apps: [],
      parameters: {
        "rubato.budget": budget.rule,
        "rubato.modules": modules.map(({ name: module, model }) => `${module} (${model})`).join(", "),
      },
    },
    modules: modules.map((module, index) => ({
      ...module,
      outputs: [
        ...new Set(
          [...modules.flatMap((other) => other.inputs), ...outputs]
            .filter(({ from }) => from.module === index)
            .map(({ from }) => from.tensor),
        ),
      ],
    })),
    budget,
    outputs,
    requestsMax: file.queue.requests_max,
    bytesMax: file.queue.bytes_max,
  };
}

/** A tensor that the request brings, and the first module that takes it. */
interface RequestInput {
  readonly spec: TensorSpec;
  readonly taker: string;
}

type ResolvedModule = Omit<ServedModule, "outputs">;

class Resolver {
  private readonly read: ReadPipeline;
  private readonly issues: IssueList;
  private readonly specs: readonly ModuleSpec[];
  private readonly models: readonly (ModelSpec | null)[];
  /** By module: 1 for each that is sure to be before it. */
  private readonly before: readonly Set<number>[];
  private readonly request = new Map<string, RequestInput>();

  constructor(read: ReadPipeline, modelOf: (name: string) => ModelSpec | string) {
    this.read = read;
    this.issues = new IssueList(read.source);
    this.specs = moduleSpecs(read.file.modules);
    this.models = read.file.modules.map(({ name, model }, module) => {
      const found = modelOf(model ?? name);
      if (typeof found !== "string") return found;
      this.issues.add(
        ["modules", module, model === undefined ? "name" : "model"],
        `of module ${this.titleOf(module)} must be a model of the repository that is served; was ${model ?? name}: ${found}`,
      );
      return null;
    });
    const { order, pres } = new Pipeline(this.specs);
    const before = this.specs.map(() => new Set<number>());
    for (const module of order)
      for (const pre of pres[module]!) for (const each of [pre, ...before[pre]!]) before[module]!.add(each);
    this.before = before;
  }

  throwIfAny(): void {
    const { issues } = this.issues;
    if (issues.length === 0) return;
    const { file } = this.read.source;
    throw new ModelFileError(
      issues.map(({ line, field, message }) => `${file}${line === null ? "" : `:${line}`}: ${field}: ${message}`),
    );
  }

  modules(): ResolvedModule[] {
    return this.read.file.modules.map(({ name, model }, module) => ({
      ...this.specs[module]!,
      model: model ?? name,
      inputs: this.inputsOf(module),
    }));
  }

  private inputsOf(module: number): NamedEnd[] {
    const spec = this.models[module];
    const written = this.read.file.modules[module]!.inputs;
    if (spec === null || spec === undefined) return [];
    const names = spec.inputs.map(({ name }) => name);
    for (const name of Object.keys(written))
      if (!names.includes(name))
        this.issues.add(
          ["modules", module, "inputs", name],
          `of module ${this.titleOf(module)} must be an input of model '${spec.name}': ${names.join(", ")}${hint(name, names)}`,
        );
    return spec.inputs.flatMap((input) => {
      const at: FieldPath = ["modules", module, "inputs", input.name];
      const end = written[input.name];
      const from = end === undefined ? this.endByName(module, input) : this.endOf(module, end, at);
      if (from === null) {
        if (end === undefined && !input.optional)
          this.issues.add(
            at,
            `of module ${this.titleOf(module)}, an input of model '${spec.name}', must say where it comes from`,
          );
        return [];
      }
      if (from.module === REQUEST) this.take(module, input, from, at);
      else this.checkEnds(module, input, from, at);
      return [{ name: input.name, from }];
    });
  }

  /** Where an input comes from that its module does not write. */
  private endByName(module: number, { name }: TensorSpec): TensorEnd | null {
    const { pres } = this.specs[module]!;
    if (pres.length === 0) return { module: REQUEST, tensor: name };
    const pre = this.specs.findIndex(({ id }) => id === pres[0]);
    const has = this.models[pre]?.outputs.some((output) => output.name === name) === true;
    return pres.length === 1 && has ? { module: pre, tensor: name } : null;
  }

  private endOf(
    module: number | null,
    { module: name, tensor }: { module?: string | undefined; tensor: string },
    at: FieldPath,
  ): TensorEnd | null {
    if (name === undefined) return { module: REQUEST, tensor };
    const names = this.specs.map((spec) => spec.name);
    const from = names.indexOf(name);
    const whose = module === null ? "" : `of module ${this.titleOf(module)} `;
    if (from < 0) {
      this.issues.add(
        [...at, "module"],
        `${whose}must name a module (${names.join(", ")}); was ${name}${hint(name, names)}`,
      );
      return null;
    }
    if (module !== null && !this.before[module]!.has(from)) {
      this.issues.add(
        [...at, "module"],
        `${whose}must be a module that leads to it; was ${this.titleOf(from)}, which does not`,
      );
      return null;
    }
    const outputs = this.models[from]?.outputs.map((output) => output.name);
    if (outputs === undefined) return null;
    if (!outputs.includes(tensor)) {
      this.issues.add(
        [...at, "tensor"],
        `${whose}must be an output of module ${this.titleOf(from)} (${outputs.join(", ")}); was ${tensor}${hint(tensor, outputs)}`,
      );
      return null;
    }
    return { module: from, tensor };
  }

  outputAt({ module, tensor }: TensorEnd): TensorSpec | undefined {
    return this.models[module]?.outputs.find(({ name }) => name === tensor);
  }

  private checkEnds(module: number, input: TensorSpec, from: TensorEnd, at: FieldPath): void {
    const output = this.outputAt(from)!;
    if (!fits(output, input))
      this.issues.add(
        at,
        `of module ${this.titleOf(module)} must be ${textOf(input)}; was output '${from.tensor}' of module ${this.titleOf(from.module)}: ${textOf(output)}`,
      );
    if (this.specs[from.module]!.isSoft === true && !input.optional)
      this.issues.add(
        at,
        `of module ${this.titleOf(module)} must be optional in model '${this.models[module]!.name}', since module ${this.titleOf(from.module)} is soft and may be missing`,
      );
  }

  /** The request brings it; several modules may take it. */
  private take(module: number, input: TensorSpec, from: TensorEnd, at: FieldPath): void {
    const own = plain(from.tensor, input, input.optional);
    const taker = `${this.titleOf(module)} as '${input.name}'`;
    const known = this.request.get(from.tensor);
    if (known === undefined) {
      this.request.set(from.tensor, { spec: own, taker });
      return;
    }
    if (!fits(known.spec, own)) {
      this.issues.add(
        at,
        `of module ${this.titleOf(module)}, the request's input '${from.tensor}', must be ${textOf(input)}; module ${known.taker} takes it as ${textOf(known.spec)}`,
      );
      return;
    }
    const shape = known.spec.shape.map((extent, axis) => (extent === -1 ? own.shape[axis]! : extent));
    this.request.set(from.tensor, {
      spec: { ...known.spec, shape, optional: known.spec.optional && own.optional },
      taker: known.taker,
    });
  }

  requestInputs(): TensorSpec[] {
    if (this.request.size === 0 && this.issues.issues.length === 0)
      this.issues.add(["modules"], "must take an input of the request in at least one module; none does");
    return [...this.request.values()].map(({ spec }) => spec);
  }

  outputs(): NamedEnd[] {
    const { outputs } = this.read.file;
    if (outputs !== undefined) {
      if (Object.keys(outputs).length === 0) this.issues.add(["outputs"], "must be at least one; were none");
      return Object.entries(outputs).flatMap(([name, end]) => {
        const from = this.endOf(null, end, ["outputs", name]);
        if (from === null) return [];
        if (this.specs[from.module]!.isSoft === true)
          this.issues.add(
            ["outputs", name],
            `must not come from a soft module, which may be missing; was ${this.titleOf(from.module)}`,
          );
        return [{ name, from }];
      });
    }
    const named = new Map<string, NamedEnd>();
    for (const [module, { subs, isSoft }] of this.specs.entries()) {
      if (subs.length > 0 || isSoft === true) continue;
      for (const { name } of this.models[module]?.outputs ?? []) {
        const other = named.get(name);
        if (other !== undefined)
          this.issues.add(
            ["outputs"],
            `must say where '${name}' comes from: modules ${this.titleOf(other.from.module)} and ${this.titleOf(module)} have it`,
          );
        named.set(name, { name, from: { module, tensor: name } });
      }
    }
    if (named.size === 0 && this.issues.issues.length === 0)
      this.issues.add(["outputs"], "must be given, since every module that leads nowhere is soft");
    return [...named.values()];
  }

  private titleOf(module: number): string {
    const { id, name } = this.specs[module]!;
    return `${id} (${name})`;
  }
}

const shapeOf = ({ clientShape, shape }: TensorSpec): readonly number[] => clientShape ?? shape;

const textOf = (spec: TensorSpec): string => `${spec.datatype} [${shapeOf(spec)}]`;

/** An extent that is open at one end is looked at when a request is there. */
function fits(a: TensorSpec, b: TensorSpec): boolean {
  const [from, to] = [shapeOf(a), shapeOf(b)];
  return (
    a.datatype === b.datatype &&
    from.length === to.length &&
    from.every((extent, axis) => extent === -1 || to[axis] === -1 || extent === to[axis])
  );
}

/** The same tensor of a model that does not batch. */
const plain = (name: string, spec: TensorSpec, optional: boolean): TensorSpec => ({
  name,
  datatype: spec.datatype,
  shape: shapeOf(spec),
  batchAxis: null,
  variable: null,
  optional,
});

function hint(name: string, names: readonly string[]): string {
  const near = nearest(name, names);
  return near === null ? "" : `; did you mean ${near}?`;
}
