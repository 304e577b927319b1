/** What placement asks the planner: models with measured load and memory, groups as sub-clusters. Pure. */
import type { PlacementConfig } from "../../config/server/server.js";
import { exceeds, type PlanInput } from "../../planning/problem.js";

/** A model that is held by a group of placement, or is to be. */
export interface PlaceableModel {
  readonly name: string;
  /** In the unit of `load` of the configuration: accelerators kept busy, or requests per second. */
  readonly load: number;
  readonly memoryMb: number;
  readonly dynamicMb: number;
  /** Index of its group among those of placement; null: none yet. */
  readonly place: number | null;
  /** Its owner says which group: it stays, and counts there. */
  readonly isPinned: boolean;
}

/** One that a group holds now. */
export interface HeldModel extends PlaceableModel {
  readonly place: number;
}

export interface Move {
  readonly model: HeldModel;
  readonly to: number;
}

/**
 * Epochs: each move of a model costs 1 of `movesMax`; what may not be costs more than all. Models without a place cost
 * nothing, for they must be loaded somewhere in any case.
 *
 * @param isAvoided a place that lately refused the model.
 */
export function placementInput(
  models: readonly PlaceableModel[],
  config: PlacementConfig,
  isAvoided: (name: string, place: number) => boolean,
): PlanInput {
  const { groups, movesMax, rateRpsMax, memoryMbMax, memoryWeight } = config;
  const never = movesMax + 1;
  return {
    clusters: groups.length,
    models: models.map(({ name, load, memoryMb, dynamicMb, place, isPinned }) => ({
      name,
      rateRps: load,
      memoryMb,
      dynamicMb,
      current: place,
      loadCost: groups.map((_, j) => {
        if (place === null) return 0;
        return isPinned || isAvoided(name, j) ? never : 1;
      }),
    })),
    memoryWeight,
    isRunning: true,
    costMax: movesMax,
    ...(rateRpsMax === null ? {} : { rateRpsMax }),
    ...(memoryMbMax === null ? {} : { memoryMbMax }),
  };
}

/** Megabytes of a group that holds these: all static, and the largest dynamic, for one model runs at a time. */
export function memoryNeededMb(models: Iterable<Pick<PlaceableModel, "memoryMb" | "dynamicMb">>): number {
  let static_ = 0;
  let dynamic = 0;
  for (const { memoryMb, dynamicMb } of models) {
    static_ += memoryMb;
    dynamic = Math.max(dynamic, dynamicMb);
  }
  return static_ + dynamic;
}

/** Whether a group that holds `held` can take `model` as well: during a move both groups hold it. */
export function hasRoom(
  held: readonly Pick<PlaceableModel, "memoryMb" | "dynamicMb">[],
  model: Pick<PlaceableModel, "memoryMb" | "dynamicMb">,
  memoryMbMax: number | null,
): boolean {
  return memoryMbMax === null || !exceeds(memoryNeededMb([...held, model]), memoryMbMax);
}

/**
 * Moves in an order in which every group has room for each as it comes, those before it done. Of those that have room
 * the first goes, without looking back: where that leads nowhere, another plan is cheaper than the search for an order.
 *
 * @returns `blocked`: those that found no room.
 */
export function orderMoves(
  held: readonly HeldModel[],
  moves: readonly Move[],
  memoryMbMax: number | null,
): { readonly order: readonly Move[]; readonly blocked: readonly Move[] } {
  const places = new Map(held.map((model) => [model, model.place]));
  const pending = [...moves];
  const order: Move[] = [];
  while (pending.length > 0) {
    const at = pending.findIndex(({ model, to }) =>
      hasRoom(
        held.filter((other) => places.get(other) === to),
        model,
        memoryMbMax,
      ),
    );
    if (at < 0) break;
    const [move] = pending.splice(at, 1) as [Move];
    places.set(move.model, move.to);
    order.push(move);
  }
  return { order, blocked: pending };
}
