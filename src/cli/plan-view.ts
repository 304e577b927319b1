/** A plan for people and for programs. */
import type { PlanMeasure } from "../planning/measure.js";
import type { PlanResult } from "../planning/partition.js";
import { type PlanProblem, placeCost } from "../planning/problem.js";
import { formatNumber, formatPercent, renderPairs, renderTable } from "./table.js";

type Planned = Extract<PlanResult, { kind: "planned" }>;

const NAMES_SHOWN = 3;
const MOVES_SHOWN = 40;

interface Move {
  readonly model: string;
  /** Null: it was nowhere. */
  readonly from: number | null;
  readonly to: number;
  readonly cost: number;
}

function movesOf(problem: PlanProblem, { assignment }: Planned): Move[] {
  const { current, names } = problem;
  if (current === null) return [];
  return names.flatMap((model, i): Move[] => {
    const [from, to] = [current[i]!, assignment[i]!];
    return from === to ? [] : [{ model, from: from < 0 ? null : from, to, cost: placeCost(problem, i, to) }];
  });
}

function membersOf(problem: PlanProblem, { assignment }: Planned): string[][] {
  const members: string[][] = Array.from({ length: problem.clusters }, () => []);
  problem.names.forEach((name, i) => void members[assignment[i]!]!.push(name));
  return members;
}

function bounded(value: number): number | null {
  return value === Number.POSITIVE_INFINITY ? null : value;
}

/** The document of `rubato plan --json`; `assignment` is what `--current` reads. */
export function planDocument(name: string, problem: PlanProblem, result: Planned): unknown {
  const { measure, greedy } = result;
  const figures = (of: PlanMeasure) => ({
    objective: of.objective,
    load_imbalance: of.loadImbalance,
    memory_imbalance: of.memoryImbalance,
  });
  return {
    scenario: name,
    status: result.isOptimal ? "optimal" : "feasible",
    clusters: problem.clusters,
    bounds: {
      rate_rps_max: bounded(problem.rateRpsMax),
      memory_mb_max: bounded(problem.memoryMbMax),
      cost_max: bounded(problem.costMax),
    },
    ...figures(measure),
    objective_bound: result.bound,
    greedy: greedy === null ? null : figures(greedy),
    rounds: result.rounds,
    elapsed_ms: Math.round(result.elapsedMs),
    cost: measure.cost,
    moves: movesOf(problem, result),
    sub_clusters: membersOf(problem, result).map((models, j) => ({
      rate_rps: measure.rateRps[j],
      memory_mb: measure.memoryMb[j],
      dynamic_memory_mb: measure.dynamicMb[j],
      models,
    })),
    assignment: Object.fromEntries(problem.names.map((model, i) => [model, result.assignment[i]])),
  };
}

const right = (title: string) => ({ title, align: "right" }) as const;

export function renderPlan(name: string, problem: PlanProblem, result: Planned): string {
  const { measure, greedy } = result;
  const pairs: [string, string][] = [
    ["scenario", name],
    ["plan", `${formatNumber(problem.names.length)} models over ${formatNumber(problem.clusters)} sub-clusters`],
    ["imbalance", renderImbalance(measure)],
  ];
  if (greedy !== null) pairs.push(["greedy alone", renderImbalance(greedy)]);
  const proof = result.isOptimal ? "the optimum" : `no plan has less than ${formatNumber(result.bound)}`;
  pairs.push(["objective", `${formatNumber(measure.objective)}, ${proof}`]);
  const bounds = [
    [problem.rateRpsMax, "requests/s"],
    [problem.memoryMbMax, "MB"],
  ].flatMap(([bound, unit]) => (bound === Number.POSITIVE_INFINITY ? [] : [`${formatNumber(Number(bound))} ${unit}`]));
  if (bounds.length > 0) pairs.push(["at most", `${bounds.join(", ")} per sub-cluster`]);
  const parts = [renderPairs(pairs), renderClusters(problem, result)];
  if (problem.current !== null) parts.push(renderMoves(problem, result));
  return parts.join("\n\n");
}

function renderImbalance({ loadImbalance, memoryImbalance }: PlanMeasure): string {
  return `load ${formatPercent(loadImbalance)}, memory ${formatPercent(memoryImbalance)} ((max - min) / mean)`;
}

function renderClusters(problem: PlanProblem, result: Planned): string {
  const { measure } = result;
  const rows = membersOf(problem, result).map((models, j) => {
    const shown = models.slice(0, NAMES_SHOWN).join(", ");
    const more = models.length > NAMES_SHOWN ? ` and ${models.length - NAMES_SHOWN} more` : "";
    return [
      String(j),
      formatNumber(models.length),
      formatNumber(measure.rateRps[j]),
      formatNumber(measure.memoryMb[j]),
      formatNumber(measure.dynamicMb[j]),
      shown + more,
    ];
  });
  return renderTable(
    [
      right("sub-cluster"),
      right("models"),
      right("requests/s"),
      right("memory MB"),
      right("dynamic MB"),
      { title: "which" },
    ],
    rows,
  );
}

function renderMoves(problem: PlanProblem, result: Planned): string {
  const moves = movesOf(problem, result);
  const bound = problem.costMax === Number.POSITIVE_INFINITY ? "no bound" : `bound ${formatNumber(problem.costMax)}`;
  const head = `${formatNumber(moves.length)} models to load, cost ${formatNumber(result.measure.cost)} (${bound})`;
  if (moves.length === 0) return head;
  const rows = moves
    .slice(0, MOVES_SHOWN)
    .map(({ model, from, to, cost }) => [model, from === null ? "–" : String(from), String(to), formatNumber(cost)]);
  const more = moves.length > MOVES_SHOWN ? `\nand ${moves.length - MOVES_SHOWN} more (all of them with --json)` : "";
  return `${head}\n${renderTable([{ title: "model" }, right("from"), right("to"), right("cost")], rows)}${more}`;
}
