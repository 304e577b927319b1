import { type ModuleSpec, Pipeline } from "../../../system/pipeline.js";
import type { FieldPath } from "../../config-error.js";
import type { ModelSpec } from "../../model.js";
import { moduleSpecs } from "../../pipeline-modules.js";
import { IssueList } from "../../source.js";
import { ModelFileError } from "../model-file.js";
import {
  type EndSpec,
  fits,
  hint,
  type ModuleTensors,
  plain,
  rowOf,
  tensorsOfModel,
  tensorsOfStep,
  textOf,
  togetherOf,
  withRows,
} from "./module-tensors.js";
import { branchOf, defaultsOf } from "./own-outputs.js";
import type { ReadPipeline } from "./pipeline-file.js";
import { Presence } from "./presence.js";
import { RequestInputs } from "./request-inputs.js";
import { type BranchSpec, type DefaultTensor, type NamedEnds, REQUEST, type TensorEnd } from "./served-pipeline.js";

/** An end as the file writes it. */
interface WrittenEnd {
  readonly module?: string | undefined;
  readonly tensor: string;
}

interface Found {
  readonly end: TensorEnd;
  /** As its taker sees it; null: it comes with the request, which is as its takers want it. */
  readonly spec: EndSpec | null;
}

/** Finds where each tensor of a pipeline comes from, and collects what does not fit. */
export class TensorResolver {
  readonly specs: readonly ModuleSpec[];
  /** By module; null: its model cannot be had. */
  readonly tensors: readonly (ModuleTensors | null)[];
  private readonly read: ReadPipeline;
  private readonly issues: IssueList;
  private readonly pipeline: Pipeline;
  private readonly presence: Presence;
  /** By module: those that lead to it. */
  private readonly before: readonly Set<number>[];
  /** By module that fans out: what its parts have a row of each, as `module/tensor`. */
  private readonly rows: ReadonlyMap<number, ReadonlySet<string>>;
  private readonly request: RequestInputs;
  /** By module: rows that what it takes has, and so what it answers; -1: that is seen when a request is there. */
  private readonly known = new Map<number, number>();

  constructor(read: ReadPipeline, modelOf: (name: string) => ModelSpec | string) {
    this.read = read;
    this.issues = new IssueList(read.source);
    this.specs = moduleSpecs(read.file.modules);
    this.tensors = read.file.modules.map((written, module) => {
      if (written.step !== undefined) return tensorsOfStep(written);
      const { name, model } = written;
      const found = modelOf(model ?? name);
      if (typeof found !== "string") return tensorsOfModel(found);
      this.issues.add(
        ["modules", module, model === undefined ? "name" : "model"],
        `of module ${this.titleOf(module)} must be a model of the repository that is served; was ${model ?? name}: ${found}`,
      );
      return null;
    });
    this.pipeline = new Pipeline(this.specs);
    const { order, pres } = this.pipeline;
    const before = this.specs.map(() => new Set<number>());
    for (const module of order)
      for (const pre of pres[module]!) for (const each of [pre, ...before[pre]!]) before[module]!.add(each);
    this.before = before;
    this.rows = new Map(
      read.file.modules.flatMap(({ fan_out: parts }, module) =>
        parts === undefined
          ? []
          : [[module, new Set(parts.tensors.map((tensor) => keyOf(this.indexOf(parts.module), tensor)))] as const],
      ),
    );
    const titleOf = (module: number): string => this.titleOf(module);
    this.presence = new Presence(read.file.modules, this.pipeline, this.tensors, titleOf, this.issues);
    this.request = new RequestInputs(titleOf, this.issues);
  }

  throwIfAny(): void {
    const { issues } = this.issues;
    if (issues.length === 0) return;
    const { file } = this.read.source;
    throw new ModelFileError(
      issues.map(({ line, field, message }) => `${file}${line === null ? "" : `:${line}`}: ${field}: ${message}`),
    );
  }

  inputsOf(module: number): NamedEnds[] {
    const tensors = this.tensors[module]!;
    const written = this.read.file.modules[module]!.inputs;
    if (tensors === null) return [];
    const names = tensors.inputs.map(({ name }) => name);
    for (const name of Object.keys(written))
      if (!names.includes(name))
        this.issues.add(
          ["modules", module, "inputs", name],
          `of module ${this.titleOf(module)} must be an input of ${tensors.whose}: ${names.join(", ") || "it has none"}${hint(name, names)}`,
        );
    return tensors.inputs.flatMap((input) => {
      const from = this.endsOf(module, input, written[input.name]);
      return from.length === 0 ? [] : [{ name: input.name, from, list: input.list === true, spec: input }];
    });
  }

  private endsOf(module: number, input: EndSpec, written: WrittenEnd | WrittenEnd[] | undefined): TensorEnd[] {
    const at: FieldPath = ["modules", module, "inputs", input.name];
    if (written === undefined) {
      const found = this.endByName(module, input);
      if (found === null && !input.optional)
        this.issues.add(
          at,
          `of module ${this.titleOf(module)}, an input of ${this.tensors[module]!.whose}, must say where it comes from`,
        );
      if (found === null) return [];
      this.checkEnd(module, input, found, at);
      this.presence.check(module, input, [found.end], at);
      return [found.end];
    }
    const places = Array.isArray(written) ? written : [written];
    const ends = places.flatMap((place, index) => {
      const own = Array.isArray(written) ? [...at, index] : at;
      const found = this.endOf(module, place, own, input.list === true);
      if (found === null) return [];
      this.checkEnd(module, input, found, own);
      return [found.end];
    });
    if (ends.length === places.length) this.presence.check(module, input, ends, at);
    return ends;
  }

  /** Where an input comes from that its module does not write. */
  private endByName(module: number, { name, list }: EndSpec): Found | null {
    const { pres } = this.specs[module]!;
    if (pres.length === 0) return this.fromRequest(module, name);
    const pre = this.specs.findIndex(({ id }) => id === pres[0]);
    const has = this.tensors[pre]?.outputs.some((output) => output.name === name) === true;
    if (pres.length !== 1 || !has) return null;
    return this.fromModule(module, pre, name, ["modules", module, "inputs", name], list === true);
  }

  /** @param module the taker; null: the pipeline's answer. */
  private endOf(
    module: number | null,
    { module: name, tensor }: WrittenEnd,
    at: FieldPath,
    isList: boolean,
    fields: { readonly module: FieldPath; readonly tensor: FieldPath } = {
      module: [...at, "module"],
      tensor: [...at, "tensor"],
    },
  ): Found | null {
    if (name === undefined) return this.fromRequest(module, tensor);
    const names = this.specs.map((spec) => spec.name);
    const from = names.indexOf(name);
    const whose = this.whose(module);
    if (from < 0) {
      this.issues.add(
        fields.module,
        `${whose}must name a module (${names.join(", ")}); was ${name}${hint(name, names)}`,
      );
      return null;
    }
    if (module !== null && !this.before[module]!.has(from)) {
      this.issues.add(
        fields.module,
        `${whose}must be a module that leads to it; was ${this.titleOf(from)}, which does not`,
      );
      return null;
    }
    const outputs = this.tensors[from]?.outputs.map((output) => output.name);
    if (outputs === undefined) return null;
    if (!outputs.includes(tensor)) {
      this.issues.add(
        fields.tensor,
        `${whose}must be an output of module ${this.titleOf(from)} (${outputs.join(", ")}); was ${tensor}${hint(tensor, outputs)}`,
      );
      return null;
    }
    return this.fromModule(module, from, tensor, at, isList);
  }

  private fromRequest(module: number | null, tensor: string): Found {
    const around = this.around(module);
    return {
      end: {
        module: REQUEST,
        tensor,
        up: around.length - 1,
        rowUp: this.rowUp(around, REQUEST, tensor),
        gatheredOf: -1,
      },
      spec: null,
    };
  }

  private fromModule(
    module: number | null,
    from: number,
    tensor: string,
    at: FieldPath,
    isList: boolean,
  ): Found | null {
    const { scope, gathersIn } = this.pipeline;
    const around = this.around(module);
    const spec = this.tensors[from]!.outputs.find(({ name }) => name === tensor)!;
    const up = around.indexOf(scope[from]!);
    if (up >= 0) {
      const rowUp = this.rowUp(around, from, tensor);
      return { end: { module: from, tensor, up, rowUp, gatheredOf: -1 }, spec: rowUp < 0 ? spec : rowOf(spec) };
    }
    const opener = scope[from]!;
    const joins = module !== null && this.specs[module]!.joins === true && gathersIn[opener] === around[0];
    if (!joins) {
      this.issues.add(
        at,
        `${this.whose(module)}must not come from ${this.titleOf(from)}, which runs in the parts of ${this.titleOf(opener)}: only a module that joins them may take it`,
      );
      return null;
    }
    const together = togetherOf(spec, isList);
    if (together === null) {
      this.issues.add(
        at,
        `${this.whose(module)}must have a first axis to put parts together on; was output '${tensor}' of module ${this.titleOf(from)}: ${textOf(spec)}`,
      );
      return null;
    }
    return { end: { module: from, tensor, up: 0, rowUp: -1, gatheredOf: opener }, spec: together };
  }

  /** The fan-outs in whose parts a module runs, innermost first; then -1, the request itself. */
  private around(module: number | null): number[] {
    const around = [module === null ? -1 : this.pipeline.scope[module]!];
    while (around.at(-1)! >= 0) around.push(this.pipeline.gathersIn[around.at(-1)!]!);
    return around;
  }

  private rowUp(around: readonly number[], module: number, tensor: string): number {
    return around.findIndex((opener) => this.rows.get(opener)?.has(keyOf(module, tensor)) === true);
  }

  private checkEnd(module: number, input: EndSpec, { end, spec }: Found, at: FieldPath): void {
    if (spec === null) {
      this.request.take(module, input, end, at);
      return;
    }
    if (input.batchAxis !== null) {
      const count = plain(input.name, spec, false).shape[input.batchAxis] ?? -1;
      this.known.set(module, (this.known.get(module) ?? count) === count ? count : -1);
    }
    if (!fits(spec, input))
      this.issues.add(
        at,
        `of module ${this.titleOf(module)} must be ${textOf(input)}; was output '${end.tensor}' of module ${this.titleOf(end.module)}: ${textOf(spec)}${aspect(end)}`,
      );
  }

  /** Where the parts of a module come from. */
  partsOf(module: number): TensorEnd[] {
    const parts = this.read.file.modules[module]!.fan_out;
    if (parts === undefined) return [];
    return parts.tensors.flatMap((tensor, index) => {
      const own: FieldPath = ["modules", module, "fan_out"];
      const at: FieldPath = [...own, "tensors", index];
      const fields = { module: [...own, "module"], tensor: at };
      const found = this.endOf(module, { module: parts.module, tensor }, at, false, fields);
      if (found === null) return [];
      const { end, spec } = found;
      if (parts.tensors.indexOf(tensor) !== index)
        this.issues.add(at, `of module ${this.titleOf(module)} must name each tensor once; was ${tensor} twice`);
      if (end.gatheredOf >= 0 || end.rowUp !== 0 || (end.module !== REQUEST && spec === null))
        this.issues.add(
          at,
          `of module ${this.titleOf(module)} must have rows, the parts; was output '${tensor}' of module ${this.titleOf(end.module)}: ${textOf(this.tensors[end.module]!.outputs.find(({ name }) => name === tensor)!)}`,
        );
      const outer = this.rowUp(this.around(module).slice(1), end.module, tensor);
      if (outer >= 0)
        this.issues.add(
          at,
          `of module ${this.titleOf(module)} must not be split again; its rows are the parts of ${this.titleOf(this.around(module)[outer + 1]!)}`,
        );
      if (end.module !== REQUEST) this.presence.check(module, null, [end], at);
      // The rows are counted where the parts are not yet.
      return [{ ...end, up: end.up - 1, rowUp: -1 }];
    });
  }

  branchOf(module: number): BranchSpec | null {
    const tensors = this.tensors[module]!;
    const written = this.read.file.modules[module]!;
    if (tensors === null) return null;
    const outputs = tensors.outputs.map((spec) => withRows(spec, this.known.get(module) ?? -1));
    return branchOf(written, { ...tensors, outputs }, ["modules", module], this.issues);
  }

  defaultsOf(module: number): DefaultTensor[] {
    const tensors = this.tensors[module]!;
    const written = this.read.file.modules[module]!;
    return tensors === null ? [] : defaultsOf(written, tensors, ["modules", module], this.issues);
  }

  requestInputs(): EndSpec[] {
    return this.request.specs();
  }

  outputs(): NamedEnds[] {
    const { outputs } = this.read.file;
    if (outputs === undefined) return this.outputsByName();
    if (Object.keys(outputs).length === 0) this.issues.add(["outputs"], "must be at least one; were none");
    return Object.entries(outputs).flatMap(([name, written]) => {
      const places = Array.isArray(written) ? written : [written];
      const at = (index: number): FieldPath => ["outputs", name, ...(Array.isArray(written) ? [index] : [])];
      const found = places.flatMap((place, index) => this.endOf(null, place, at(index), false) ?? []);
      const [first] = found;
      if (first === undefined || found.length < places.length) return [];
      for (const [index, { end, spec }] of found.entries()) {
        if (spec!.list === true)
          this.issues.add(
            at(index),
            `must be one tensor, not a list; was output '${end.tensor}' of module ${this.titleOf(end.module)}: ${textOf(spec!)}`,
          );
        else if (!fits(first.spec!, spec!))
          this.issues.add(
            at(index),
            `must be ${textOf(first.spec!)} as that of module ${this.titleOf(first.end.module)}; was output '${end.tensor}' of module ${this.titleOf(end.module)}: ${textOf(spec!)}`,
          );
      }
      const ends = found.map(({ end }) => end);
      this.presence.check(null, null, ends, ["outputs", name]);
      return [{ name, from: ends, list: false, spec: first.spec! }];
    });
  }

  /** All of the modules that lead nowhere. */
  private outputsByName(): NamedEnds[] {
    const named = new Map<string, NamedEnds>();
    for (const [module, { subs, isSoft }] of this.specs.entries()) {
      if (subs.length > 0 || isSoft === true) continue;
      const opener = this.pipeline.scope[module]!;
      if (opener >= 0) {
        this.issues.add(
          ["modules", module],
          `of module ${this.titleOf(module)} runs in the parts of ${this.titleOf(opener)} and leads nowhere: it must join them (join: true), or a module after it, since only whole requests are answered`,
        );
        continue;
      }
      for (const { name } of this.tensors[module]?.outputs ?? []) {
        const other = named.get(name);
        if (other !== undefined)
          this.issues.add(
            ["outputs"],
            `must say where '${name}' comes from: modules ${this.titleOf(other.from[0]!.module)} and ${this.titleOf(module)} have it`,
          );
        const found = this.endOf(null, { module: this.specs[module]!.name, tensor: name }, ["outputs"], false);
        if (found === null) continue;
        if (found.spec!.list === true)
          this.issues.add(
            ["outputs"],
            `must be given, since output '${name}' of module ${this.titleOf(module)} is ${textOf(found.spec!)}`,
          );
        this.presence.check(null, null, [found.end], ["outputs"]);
        named.set(name, { name, from: [found.end], list: false, spec: found.spec! });
      }
    }
    if (named.size === 0 && this.issues.issues.length === 0)
      this.issues.add(["outputs"], "must be given, since every module that leads nowhere is soft");
    return [...named.values()];
  }

  /** @returns REQUEST where there is no name; -2: nobody has it. */
  private indexOf(name: string | undefined): number {
    if (name === undefined) return REQUEST;
    const index = this.specs.findIndex((spec) => spec.name === name);
    return index < 0 ? -2 : index;
  }

  private whose(module: number | null): string {
    return module === null ? "" : `of module ${this.titleOf(module)} `;
  }

  private titleOf(module: number): string {
    const { id, name } = this.specs[module]!;
    return `${id} (${name})`;
  }
}

const keyOf = (module: number, tensor: string): string => `${module}/${tensor}`;

/** What of a tensor its taker gets, where that is not the whole. */
function aspect({ rowUp, gatheredOf }: TensorEnd): string {
  if (gatheredOf >= 0) return " of all parts";
  return rowUp >= 0 ? " of one part" : "";
}
