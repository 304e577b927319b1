import { expect, test } from "vitest";
import { type Contender, inTurn, type PairPlan, type RunCounts, runPairs } from "./paired-runs.js";

const plan: PairPlan = {
  pairs: 3,
  sparePairs: 1,
  sweepPairs: 2,
  pairsPerRun: 1,
  timeouts: [0.1, 0.5],
  hasControl: true,
  repeatsMax: 1,
};
const takeTurns = (plan: PairPlan, run: (contender: Contender, pair: number) => Promise<RunCounts>) =>
  runPairs(
    plan,
    inTurn(plan, async ([contender], [pair]) => [[await run(contender!, pair!)]]),
  );
const counts = (in_time: number) => ({ arrived: 100, in_time, late: 0, lag_ms: 1, void_reason: null });

test("in an order of its own in each pair, the same in every run; all timeouts while they are swept, then the best of them", async () => {
  const run = async (pairs: number): Promise<string[][]> => {
    const order: string[][] = Array.from({ length: pairs }, () => []);
    await takeTurns({ ...plan, pairs }, async ({ name }, pair) => {
      order[pair]!.push(name);
      return counts(name === "timeout-0.5" ? 60 : 50);
    });
    return order;
  };
  const order = await run(40);
  const all = ["default", "eager", "eager-again", "timeout-0.1", "timeout-0.5"];
  expect(order.slice(0, 2).map((pair) => [...pair].sort())).toEqual([all, all]);
  for (const pair of order.slice(2)) expect([...pair].sort()).toEqual(all.filter((name) => name !== "timeout-0.1"));
  expect(await run(40)).toEqual(order);
  // Each runs right behind each other one in some pair: nobody has what another leaves behind for itself.
  const common = all.filter((name) => name !== "timeout-0.1");
  const behind = new Set(order.flatMap((pair) => pair.slice(1).map((name, index) => `${name} behind ${pair[index]}`)));
  for (const name of common)
    for (const other of common) if (name !== other) expect(behind).toContain(`${name} behind ${other}`);
});

test("a void run is made again, as often as is allowed, before its pair is given up", async () => {
  const order: string[] = [];
  const runs = await takeTurns({ ...plan, pairs: 1, sparePairs: 2, repeatsMax: 2 }, async ({ name }, pair) => {
    order.push(`${pair} ${name}`);
    const tried = order.filter((each) => each === `${pair} ${name}`).length;
    const isVoid = (pair === 0 && name === "eager") || (name === "default" && tried < 2);
    return { ...counts(tried), void_reason: isVoid ? "late" : null };
  });
  const first = order.filter((each) => each.startsWith("0"));
  // Nobody runs behind the one that stays void.
  expect(first.slice(-3)).toEqual(["0 eager", "0 eager", "0 eager"]);
  expect(first.filter((each) => each === "0 eager")).toHaveLength(3);
  const second = runs.filter(({ pair }) => pair === 1);
  expect(second.map(({ contender }) => contender).sort()).toEqual([
    "default",
    "eager",
    "eager-again",
    "timeout-0.1",
    "timeout-0.5",
  ]);
  expect(second.find(({ contender }) => contender === "default")).toMatchObject({ in_time: 2, void_reason: null });
});

test("a void pair is made up for, as often as is allowed", async () => {
  const voidPairs = async (voids: readonly number[]) => {
    const runs = await takeTurns(plan, async ({ name }, pair) => {
      const isVoid = voids.includes(pair) && name === "eager";
      return { ...counts(50), void_reason: isVoid ? "late" : null };
    });
    return [...new Set(runs.map(({ pair }) => pair))];
  };
  expect(await voidPairs([])).toEqual([0, 1, 2]);
  expect(await voidPairs([0])).toEqual([0, 1, 2, 3]);
  expect(await voidPairs([0, 1, 2, 3])).toEqual([0, 1, 2, 3]);
});

test("what a void pair seemed to say of timeouts does not count, and does not shorten their sweep", async () => {
  const run = async ({ name }: Contender, pair: number) => {
    if (pair === 0)
      return { ...counts(name === "timeout-0.1" ? 99 : 50), void_reason: name === "timeout-0.5" ? "late" : null };
    return counts(name === "timeout-0.5" ? 60 : 50);
  };
  const runs = await runPairs(plan, async (contenders, [pair]) => [
    await Promise.all(contenders.map((contender) => run(contender, pair!))),
  ]);
  const timeouts = [0, 1, 2, 3].map((pair) =>
    runs.flatMap((run) => (run.pair === pair && run.contender.startsWith("timeout") ? [run.contender] : [])),
  );
  expect(timeouts.map(({ length }) => length)).toEqual([2, 2, 2, 1]);
  expect(timeouts[3]).toEqual(["timeout-0.5"]);
});

test("pairs behind each other in one run: those of the sweep, then the others; void ones are made up for alone", async () => {
  const calls: string[] = [];
  const runs = await runPairs({ ...plan, pairs: 7, sparePairs: 7, pairsPerRun: 7 }, async (contenders, pairs) => {
    calls.push(`${contenders.length}: ${pairs.join(" ")}`);
    return pairs.map((pair) =>
      contenders.map(({ name }) => ({
        ...counts(name === "timeout-0.5" ? 60 : 50),
        void_reason: (pair === 3 || pair === 6) && name === "eager" ? "late" : null,
      })),
    );
  });
  expect(calls).toEqual(["5: 0 1", "4: 2 3 4 5 6", "4: 7 8"]);
  const names = (pair: number) => runs.filter((run) => run.pair === pair).map(({ contender }) => contender);
  expect([...names(0)].sort()).toEqual(["default", "eager", "eager-again", "timeout-0.1", "timeout-0.5"]);
  expect([...names(7)].sort()).toEqual(["default", "eager", "eager-again", "timeout-0.5"]);
  expect(runs.filter(({ void_reason }) => void_reason !== null).map(({ pair }) => pair)).toEqual([3, 6]);
});

test("however many are void, there is an end", async () => {
  let made = 0;
  await runPairs({ ...plan, pairs: 7, sparePairs: 7, pairsPerRun: 7 }, async (contenders, pairs) => {
    made += pairs.length;
    return pairs.map(() => contenders.map(() => ({ ...counts(50), void_reason: "late" })));
  });
  expect(made).toBe(14);
});
