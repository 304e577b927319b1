import { describe, expect, test } from "vitest";
import { Distribution } from "../../core/times/distribution.js";
import { stream } from "../../sim/random.js";
import { PriorityQueue } from "./priority-queue.js";
import { Score } from "./score.js";

/** All lines, and the best of them by looking at each: the same expression of the same numbers. */
class NaiveTwin {
  readonly alphas: number[] = [];
  readonly betas: number[] = [];
  readonly present: number[] = [];
  private readonly places: number[] = [];

  set(handle: number, alpha: number, beta: number): void {
    if ((this.places[handle] ?? -1) < 0) {
      this.places[handle] = this.present.length;
      this.present.push(handle);
    }
    this.alphas[handle] = alpha;
    this.betas[handle] = beta;
  }

  remove(handle: number): void {
    const place = this.places[handle]!;
    const last = this.present.pop()!;
    if (last !== handle) {
      this.present[place] = last;
      this.places[last] = place;
    }
    this.places[handle] = -1;
  }

  rebase(factor: number): void {
    for (const handle of this.present) this.alphas[handle]! *= factor;
  }

  valueOf(handle: number, growth: number): number {
    return this.alphas[handle]! * growth + this.betas[handle]!;
  }

  highest(growth: number): number {
    let highest = Number.NEGATIVE_INFINITY;
    for (const handle of this.present) highest = Math.max(highest, this.valueOf(handle, growth));
    return highest;
  }
}

const RATE = 1e-3;

interface Run {
  readonly rebases: number;
  readonly queries: number;
  /** Queries whose answer was another than the one before. */
  readonly changes: number;
}

/** @throws where the winner's value is not the highest. */
function runRandomly(seed: number, operations: number, sizeMax: number, queryShare: number): Run {
  const random = stream(seed, "priority-queue");
  const whole = (below: number): number => Math.floor(random() * below);
  const queue = new PriorityQueue(RATE, 2);
  const twin = new NaiveTwin();
  const free = Array.from({ length: sizeMax }, (_, index) => sizeMax - 1 - index);
  let at = whole(1e6);
  let rebases = 0;
  let queries = 0;
  let changes = 0;
  let before = -1;
  // Mostly within a stage, sometimes at once or by less than any clock tells, sometimes far on.
  const step = (kind: number): number => {
    if (kind < 0.3) return 0;
    if (kind < 0.6) return random() * 10 ** -whole(9);
    return whole(kind < 0.95 ? 10 : kind < 0.995 ? 500 : 50_000);
  };
  const advance = (): void => {
    at += step(random());
    const { base } = queue;
    queue.advance(at);
    if (queue.base === base) return;
    if (twin.present.length > 0) rebases++;
    twin.rebase(Math.exp(RATE * (queue.base - base)));
    // Lines that outgrew all scores would be the best for ever.
    for (const handle of twin.present) if (Math.abs(twin.alphas[handle]!) > 10) line(handle);
  };
  const line = (handle: number): void => {
    const kind = random();
    // As scores have them; few values, so that lines are equal or parallel; crossing near now; any.
    const dueIn = at - queue.base + whole(4000);
    const level = kind < 0.5 ? whole(4) / 100 : random() / 100;
    let alpha = (random() < 0.5 ? random() / 100 : whole(5) / 100 - level) * Math.exp(-RATE * dueIn);
    let beta = level;
    if (kind > 0.7) [alpha, beta] = [whole(7) - 3, whole(7) - 3];
    if (kind > 0.9) [alpha, beta] = [(random() - 0.5) / queue.growth, random() - 0.5];
    if (kind > 0.97) [alpha, beta] = [0, 0];
    // Equal to the best at this moment but for rounding, and steeper or flatter by little or less.
    const best = kind > 0.5 && kind < 0.7 ? queue.best(at) : -1;
    if (best >= 0 && Math.abs(queue.valueOf(best)) < 100) {
      const steeper = ((random() - 0.5) * 10 ** -whole(15)) / queue.growth;
      [alpha, beta] = [twin.alphas[best]! + steeper, twin.betas[best]! - steeper * queue.growth];
    }
    queue.set(handle, alpha, beta);
    twin.set(handle, alpha, beta);
  };
  for (let operation = 0; operation < operations; operation++) {
    const kind = random();
    advance();
    if (kind < queryShare) {
      queries++;
      const best = queue.best(at);
      if (best !== before) changes++;
      before = best;
      if (twin.present.length === 0 ? best !== -1 : twin.valueOf(best, queue.growth) !== twin.highest(queue.growth))
        throw new Error(
          `seed ${seed}, operation ${operation}: ${best} has ${twin.valueOf(best, queue.growth)}, highest ${twin.highest(queue.growth)}`,
        );
    } else {
      // Grows to the full size and falls again, several times.
      const wanted = (sizeMax / 2) * (1 - Math.cos((operation / operations) * 8 * Math.PI));
      const choice = random();
      const isRoom = free.length > 0;
      const anyPresent = (): number => twin.present[whole(twin.present.length)]!;
      if (choice < 0.2 && twin.present.length > 0) line(anyPresent());
      else if (isRoom && (twin.present.length === 0 || random() < (twin.present.length < wanted ? 0.7 : 0.3)))
        line(free.splice(-1 - whole(Math.min(free.length, 100)), 1)[0]!);
      else if (twin.present.length > 0) {
        const gone = random() < 0.3 ? queue.best(at) : anyPresent();
        queue.remove(gone);
        twin.remove(gone);
        free.push(gone);
      }
    }
    if (queue.size !== twin.present.length)
      throw new Error(`seed ${seed}: holds ${queue.size}, not ${twin.present.length}`);
  }
  return { rebases, queries, changes };
}

describe("PriorityQueue against a naive twin: the winner's value is the highest to the last digit", () => {
  for (let seed = 1; seed <= 9; seed++)
    test(`100,000 random operations, seed ${seed}`, () => {
      const { rebases, queries, changes } = runRandomly(seed, 100_000, [3, 40, 300][seed % 3]!, 0.4);
      expect(rebases).toBeGreaterThan(20);
      expect(queries).toBeGreaterThan(35_000);
      expect(changes).toBeGreaterThan(1000);
    });
  test("100,000 random operations on up to 20,000 lines, seed 10", () => {
    expect(runRandomly(10, 100_000, 20_000, 0.01).queries).toBeGreaterThan(900);
  });
});

describe("PriorityQueue", () => {
  test("the rising line overtakes the level one at its crossing; equal lines: the smaller handle, for ever", () => {
    const queue = new PriorityQueue(1e-6);
    queue.advance(0);
    queue.set(9, 0, 2);
    queue.set(4, 1, 0);
    queue.set(7, 0, 2);
    expect([queue.best(0), queue.best(693_146), queue.best(693_148)]).toEqual([7, 7, 4]);
    queue.remove(4);
    queue.set(8, 0, 2);
    expect(queue.best(5e6)).toBe(7);
    queue.remove(7);
    expect([queue.best(5e6), queue.size, queue.has(7), queue.has(8)]).toEqual([8, 2, false, true]);
    queue.remove(8);
    queue.remove(9);
    queue.remove(9);
    expect(queue.best(6e6)).toBe(-1);
  });

  test("runs for a year with lines moved on at their milestones, at rates of the paper's whole sweep", () => {
    // 1e-6 to 1e-1 per ms; at the last, e^{bt} overflows after 7 s.
    for (const rate of [1e-9, 1e-7, 1e-4]) {
      const score = new Score(Distribution.of([10_000, 20_000, 80_000, 100_000], [0.5, 0, 0.5]), rate);
      const queue = new PriorityQueue(rate);
      // Nobody moves these on: they stay numbers, and below all others.
      queue.set(0, -1, 0);
      queue.set(9, 0, 0);
      for (let at = 0; at < 365 * 86_400e6; at += 86_400e6 * 7.3) {
        queue.advance(at);
        for (const [handle, slack] of [150_000, 60_000, 90_000].entries()) {
          const stage = score.stageOf(slack);
          queue.set(handle + 1, score.alphaOf(stage, at + slack - queue.base), score.betaOf(stage));
        }
        const values = [150_000, 60_000, 90_000].map((slack) => score.valueAt(slack));
        expect(queue.best(at)).toBe(1 + values.indexOf(Math.max(...values)));
        expect(queue.valueOf(1) / values[0]!).toBeCloseTo(1, 9);
      }
    }
  });

  test("with stages moved on at their milestones it finds whom a scan of all scores finds", () => {
    const rate = 1e-5;
    const scores = [
      new Score(Distribution.of([10_000, 20_000, 80_000, 100_000], [0.5, 0, 0.5]), rate),
      new Score(Distribution.of([5000, 30_000, 60_000, 90_000], [0.6, 0.1, 0.3]), rate),
      new Score(Distribution.of([40_000, 41_000, 90_000], [0.7, 0.3]), rate),
    ];
    const random = stream(7, "milestones");
    const queue = new PriorityQueue(rate);
    const held = new Map<number, { score: Score; deadline: number; milestone: number }>();
    let at = 1_000_000;
    let compared = 0;
    for (let handle = 0; handle < 5000; handle++) {
      at += Math.floor(random() * 1000);
      queue.advance(at);
      held.set(handle, {
        score: scores[handle % 3]!,
        deadline: at + 20_000 + Math.floor(random() * 200_000),
        milestone: 0,
      });
      for (const [each, state] of held) {
        if (state.milestone > at) continue;
        const { score, deadline } = state;
        const stage = score.stageOf(deadline - at);
        state.milestone = score.milestoneOf(stage, deadline);
        queue.set(each, score.alphaOf(stage, deadline - queue.base), score.betaOf(stage));
      }
      const best = queue.best(at);
      const scoreOf = (each: number): number => held.get(each)!.score.valueAt(held.get(each)!.deadline - at);
      const highest = Math.max(...[...held.keys()].map(scoreOf));
      // Lines end a rounding error before or after their milestones.
      expect(scoreOf(best)).toBeGreaterThanOrEqual(highest * (1 - 1e-6));
      compared++;
      if (held.size > 60) {
        queue.remove(best);
        held.delete(best);
      }
    }
    expect(compared).toBe(5000);
  });

  test("refuses what would make it no order", () => {
    const queue = new PriorityQueue(1e-6);
    queue.advance(10);
    expect(() => queue.advance(9)).toThrow("time of a priority queue must be >= 10; was 9");
    expect(() => queue.advance(Number.NaN)).toThrow("was NaN");
    expect(() => queue.set(0, Number.NaN, 0)).toThrow(
      "alpha and beta of request 0 must be within ±1e+290; were NaN, 0",
    );
    expect(() => queue.set(-1, 0, 0)).toThrow("handle must be a whole number >= 0; was -1");
    expect(() => new PriorityQueue(0)).toThrow("delayRate must be > 0 and finite; was 0");
  });
});
