/** What a good engineer tries first: the earliest deadlines that can be in time, and a gamma by how many wait. */
import { NOT_EXECUTED } from "../../policies/otas/allocation/allocation.js";
import { BATCH_MAX } from "../../reproduce/otas/vision-transformer.js";
import type { ElasticLoad } from "./elastic-load.js";
import type { ElasticProfile } from "./elastic-profile.js";
import type { Contender } from "./one-accelerator.js";

export class EarliestFirst implements Contender {
  /** In deadline order. */
  private readonly requests: number[] = [];

  /** @param gammaFor how many wait. */
  constructor(
    private readonly load: ElasticLoad,
    private readonly profile: ElasticProfile,
    private readonly gammaFor: (waiting: number) => number,
  ) {}

  arrived(request: number): void {
    const { dueAt } = this.load;
    const after = this.requests.findLastIndex((other) => dueAt[other]! <= dueAt[request]!);
    this.requests.splice(after + 1, 0, request);
  }

  next(now: number, members: number[]): number {
    const { requests, profile } = this;
    const gamma = this.gammaFor(requests.length);
    const fits = (size: number): boolean => now + profile.timeUs(gamma, size) <= this.load.dueAt[requests[0]!]!;
    while (requests.length > 0 && !fits(1)) requests.shift();
    if (requests.length === 0) return NOT_EXECUTED;
    let size = Math.min(BATCH_MAX, requests.length);
    while (!fits(size)) size--;
    members.push(...requests.splice(0, size));
    return gamma;
  }
}
