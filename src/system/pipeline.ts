/** The modules of a pipeline and what leads from one to the next: checked once, then read by index. */
import { invariant } from "../core/invariant.js";

/** A vertex of the graph, as a pipeline's file writes it (PARD: name, id, pres, subs). */
export interface ModuleSpec {
  readonly id: number;
  readonly name: string;
  /** Ids of the modules before and after it. */
  readonly pres: readonly number[];
  readonly subs: readonly number[];
  /** Its answer may be missing: what follows goes on with a default value. */
  readonly isSoft?: boolean;
  /** A request makes several parts here, or none; each goes on by itself until a module that joins. */
  readonly fansOut?: boolean;
  /** Waits for all parts of the fan-out before it, and is one again. */
  readonly joins?: boolean;
  /** Leads to one of its subs, not to all. */
  readonly branches?: boolean;
}

export interface PipelineProblem {
  /** Index of the module. */
  readonly module: number;
  readonly field: "id" | "name" | "pres" | "subs" | "join" | "fan_out" | "branch";
  readonly text: string;
}

export const MODULES_MAX = 64;

const titleOf = ({ id, name }: ModuleSpec): string => `${id} (${name})`;

/** What is wrong with a graph, both ends named; empty when it can be served. */
export function pipelineProblems(modules: readonly ModuleSpec[]): PipelineProblem[] {
  const problems: PipelineProblem[] = [];
  const indexOf = new Map<number, number>();
  const names = new Map<string, number>();
  for (const [module, { id, name }] of modules.entries()) {
    const other = indexOf.get(id);
    if (other !== undefined)
      problems.push({ module, field: "id", text: `must be unique; was ${id}, that of ${modules[other]!.name}, too` });
    else indexOf.set(id, module);
    const namesake = names.get(name);
    if (namesake !== undefined)
      problems.push({
        module,
        field: "name",
        text: `must be unique; was ${name}, that of module ${modules[namesake]!.id}, too`,
      });
    else names.set(name, module);
  }
  // Whom the others mean by it nobody can say.
  if (problems.some(({ field }) => field === "id")) return problems;
  for (const [module, spec] of modules.entries()) {
    for (const [field, back] of [
      ["pres", "subs"],
      ["subs", "pres"],
    ] as const) {
      for (const [position, id] of spec[field].entries()) {
        const other = indexOf.get(id);
        if (spec[field].indexOf(id) !== position)
          problems.push({
            module,
            field,
            text: `of module ${titleOf(spec)} must name each module once; was ${id} twice`,
          });
        else if (other === undefined)
          problems.push({
            module,
            field,
            text: `of module ${titleOf(spec)} must be ids of modules (${[...indexOf.keys()].join(", ")}); was ${id}`,
          });
        else if (other === module)
          problems.push({ module, field, text: `of module ${titleOf(spec)} must not be itself; was ${id}` });
        else if (!modules[other]![back].includes(spec.id))
          problems.push({
            module,
            field,
            text: `of module ${titleOf(spec)} names ${titleOf(modules[other]!)}, whose ${back} must name ${spec.id}; were [${modules[other]![back].join(", ")}]`,
          });
      }
    }
    if (spec.branches && spec.subs.length < 2)
      problems.push({
        module,
        field: "branch",
        text: `of module ${titleOf(spec)} must choose among at least 2 subs; has ${spec.subs.length}`,
      });
    if (spec.joins && spec.fansOut)
      problems.push({ module, field: "fan_out", text: `must not stand beside join in module ${titleOf(spec)}` });
  }
  if (problems.length > 0) return problems;
  const graph = new Graph(modules, indexOf);
  const cycle = graph.cycle();
  if (cycle !== null) {
    const way = [...cycle, cycle[0]!].map((module) => titleOf(modules[module]!)).join(" -> ");
    return [{ module: cycle[0]!, field: "subs", text: `must not lead back to where they come from; was ${way}` }];
  }
  return graph.scopeProblems();
}

/** Indexes in place of ids, and the fan-out in whose parts each module runs. */
class Graph {
  readonly subs: readonly (readonly number[])[];
  readonly pres: readonly (readonly number[])[];
  /** Innermost fan-out that a module runs in the parts of, and the one that what leads to it is gathered in; -1: the request itself. */
  readonly scope: Int32Array;
  readonly gathersIn: Int32Array;
  private readonly modules: readonly ModuleSpec[];

  constructor(modules: readonly ModuleSpec[], indexOf: ReadonlyMap<number, number>) {
    this.modules = modules;
    this.subs = modules.map(({ subs }) => subs.map((id) => indexOf.get(id)!));
    this.pres = modules.map(({ pres }) => pres.map((id) => indexOf.get(id)!));
    this.scope = new Int32Array(modules.length).fill(-1);
    this.gathersIn = new Int32Array(modules.length).fill(-1);
  }

  /** Every module after all that lead to it; shorter than the graph where there is a circle. */
  order(): number[] {
    const left = this.pres.map((pres) => pres.length);
    const order = left.flatMap((count, module) => (count === 0 ? [module] : []));
    for (let at = 0; at < order.length; at++)
      for (const sub of this.subs[order[at]!]!) if (--left[sub]! === 0) order.push(sub);
    return order;
  }

  /** Modules of a circle in order; null when there is none. */
  cycle(): number[] | null {
    const order = new Set(this.order());
    if (order.size === this.modules.length) return null;
    // Whoever is left over has one before it that is left over: walking back must meet itself.
    const seen: number[] = [];
    let module = this.modules.findIndex((_, index) => !order.has(index));
    while (!seen.includes(module)) {
      seen.push(module);
      module = this.pres[module]!.find((pre) => !order.has(pre))!;
    }
    return seen.slice(seen.indexOf(module)).reverse();
  }

  /** Finds the scopes. @returns where parts would meet that are not of one fan-out. */
  scopeProblems(): PipelineProblem[] {
    const problems: PipelineProblem[] = [];
    const { modules, scope, gathersIn } = this;
    for (const module of this.order()) {
      const { joins, fansOut, pres } = modules[module]!;
      const scopes = [...new Set(this.pres[module]!.map((pre) => scope[pre]!))];
      const partsOf = (of: number): string => (of < 0 ? "the whole request" : `parts of ${titleOf(modules[of]!)}`);
      const all = scopes.map(partsOf).join(" and ");
      if (joins) {
        const inner = scopes.filter(
          (each) => each >= 0 && scopes.every((other) => other === each || other === gathersIn[each]),
        );
        if (inner.length === 0)
          problems.push({
            module,
            field: "join",
            text: `of module ${titleOf(modules[module]!)} must bring the parts of one fan_out before it together; its pres [${pres.join(", ")}] are ${all === "" ? "none" : all}`,
          });
        else gathersIn[module] = gathersIn[inner[0]!]!;
      } else {
        if (scopes.length > 1)
          problems.push({
            module,
            field: "pres",
            text: `of module ${titleOf(modules[module]!)} must be of the same parts, or it must join; were ${all}`,
          });
        gathersIn[module] = scopes[0] ?? -1;
      }
      scope[module] = fansOut ? module : gathersIn[module]!;
    }
    return problems;
  }
}

/** A pipeline that can be served. */
export class Pipeline {
  readonly modules: readonly ModuleSpec[];
  /** By index of the module. */
  readonly subs: readonly (readonly number[])[];
  readonly pres: readonly (readonly number[])[];
  readonly sources: readonly number[];
  /** Every module after all that lead to it. */
  readonly order: readonly number[];
  /** The fan-out whose parts a module runs in; -1: the request itself. */
  readonly scope: Int32Array;
  /** Where what leads to a module is gathered: in the same part, or, for one that joins or fans out, in the one around it. */
  readonly gathersIn: Int32Array;
  /** Of a fan-out: the modules that join its parts, each as often as edges lead there from a part. */
  readonly joinsOf: readonly (readonly number[])[];

  constructor(modules: readonly ModuleSpec[]) {
    const problems = pipelineProblems(modules);
    invariant(modules.length > 0 && problems.length === 0, `pipeline: ${problems[0]?.text ?? "must have a module"}`);
    const graph = new Graph(modules, new Map(modules.map(({ id }, index) => [id, index])));
    graph.scopeProblems();
    this.modules = modules;
    this.subs = graph.subs;
    this.pres = graph.pres;
    this.order = graph.order();
    this.scope = graph.scope;
    this.gathersIn = graph.gathersIn;
    this.sources = modules.flatMap((_, module) => (graph.pres[module]!.length === 0 ? [module] : []));
    this.joinsOf = modules.map((_, opener) =>
      modules.flatMap(({ joins }, join) =>
        joins ? graph.pres[join]!.filter((pre) => graph.scope[pre] === opener).map(() => join) : [],
      ),
    );
  }

  /** By module: how many ways requests may take out of it; 0: they take all. */
  get ways(): number[] {
    return this.modules.map(({ branches }, module) => (branches ? this.subs[module]!.length : 0));
  }

  /** A request can do without its answer. */
  isSoft(module: number): boolean {
    return this.modules[module]!.isSoft === true;
  }

  /** As `longest`, of modules that a request cannot do without. */
  longestNeeded(direction: "subs" | "pres", us: (module: number) => number): Float64Array {
    return this.longest(direction, (module) => (this.isSoft(module) ? 0 : us(module)));
  }

  /** By module: the sum of `us` over all modules after it (subs) or before it (pres), by the way that takes longest. */
  longest(direction: "subs" | "pres", us: (module: number) => number): Float64Array {
    const sums = new Float64Array(this.modules.length);
    const order = direction === "subs" ? [...this.order].reverse() : this.order;
    for (const module of order)
      for (const next of this[direction][module]!) sums[module] = Math.max(sums[module]!, us(next) + sums[next]!);
    return sums;
  }
}
