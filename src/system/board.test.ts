import { describe, expect, it, test } from "vitest";
import { DROPPED, FINISHED } from "../core/outcome.js";
import { Board, ROW_NUMBERS_MAX } from "./board.js";
import { Budgets } from "./budget/budget.js";
import { columnOf, MODULE_COLUMNS, ModuleStates, STATE_INTERVAL_US } from "./module-states.js";
import { Pipeline } from "./pipeline.js";

describe("a board", () => {
  it("gives a whole row with its epoch and age, or says that there is none", () => {
    const board = new Board(2, ["delay_us", "size"], 100);
    const row = board.blank();
    expect(board.read(1, 0, row)).toBe("absent");
    expect(row.epoch).toBe(0);
    board.publish(1, [7, 8], 50);
    expect(board.read(0, 50, row)).toBe("absent");
    expect(board.read(1, 150, row)).toBe("fresh");
    expect([row.epoch, row.writtenAt, row.value(0), row.value(1)]).toEqual([1, 50, 7, 8]);
    expect(board.read(1, 151, row)).toBe("stale");
    // A copy stays what it was; the next reading is of the next epoch.
    board.publish(1, [9, 10], 160);
    expect([row.epoch, row.value(0)]).toEqual([1, 7]);
    expect(board.read(1, 160, row)).toBe("fresh");
    expect([row.epoch, row.writtenAt, row.value(0), row.value(1)]).toEqual([2, 160, 9, 10]);
  });

  it("has rows that fit a message of less than 500 bytes", () => {
    const columns = (count: number): string[] => Array.from({ length: count }, (_, column) => `c${column}`);
    const { numbers } = new Board(1, columns(ROW_NUMBERS_MAX - 2), 1).blank();
    expect(numbers.byteLength).toBeLessThan(500);
    expect(() => new Board(1, columns(ROW_NUMBERS_MAX - 1), 1)).toThrow("at most 60 columns; has 61");
  });

  it("takes no row that is not there or not whole", () => {
    const board = new Board(1, ["a", "b"], 1);
    expect(() => board.publish(1, [1, 2], 0)).toThrow("row must be in [0, 1); was 1");
    expect(() => board.publish(0, [1], 0)).toThrow("row must have 2 numbers; has 1");
    expect(() => board.read(-1, 0, board.blank())).toThrow("row must be in [0, 1); was -1");
  });
});

const CHAIN = new Pipeline([
  { id: 0, name: "a", pres: [], subs: [1] },
  { id: 1, name: "b", pres: [0], subs: [] },
]);

test("modules' states: sums of an interval, published when it is over; who finished nothing keeps its row", () => {
  const states = new ModuleStates(2);
  const row = states.board.blank();
  const read = (module: number, at: number) => {
    const reading = states.board.read(module, at, row);
    return { reading, ...Object.fromEntries(MODULE_COLUMNS.map((name) => [name, row.value(columnOf(name))])) };
  };
  expect(states.look(5)).toBe(0);
  for (const module of [0, 0, 0, 1]) states.came(module, 5);
  states.ran(0, 2, 100);
  states.ran(0, 4, 100);
  states.ended(0, FINISHED, 10, 30, 100);
  states.ended(0, FINISHED, 10, 50, 100);
  states.ended(0, DROPPED, 10, -1, 90);
  states.ended(1, DROPPED, 10, -1, 90);
  const at = 5 + STATE_INTERVAL_US;
  expect(states.look(at - 1)).toBe(0);
  // What comes later is not of this interval, whoever asks first.
  states.ended(0, DROPPED, 10, -1, at + 7);
  expect(states.look(at + 7)).toBe(1);
  const first = {
    reading: "fresh",
    parts_per_s: 3,
    finished_per_s: 2,
    drop_rate: 1 / 3,
    queue_us: 30,
    run_us: 60,
    batch_size: 3,
  };
  expect(read(0, at)).toMatchObject(first);
  expect(read(1, at).reading).toBe("absent");
  expect(states.look(at + 4 * STATE_INTERVAL_US)).toBe(5);
  expect(read(0, at + 4 * STATE_INTERVAL_US)).toMatchObject({ ...first, reading: "stale" });
});

test("budget measured: shares go by what parts took, and by the least times where that is not known any more", () => {
  const budgets = new Budgets(CHAIN, "measured", { leastUs: () => 100 });
  const states = new ModuleStates(2);
  const dueBy = (): number => budgets.dueBy(0, 0, 1000, 0);
  expect(dueBy()).toBe(500);
  states.came(0, 0);
  states.ended(0, FINISHED, 0, 250, 300);
  states.ran(0, 1, 300);
  const at = STATE_INTERVAL_US;
  states.look(at);
  budgets.published(states.board, at);
  expect(dueBy()).toBe(750);
  expect(budgets.dueBy(1, 600, 1000, 0)).toBe(1000);
  expect(budgets.sloUs(0, 1000)).toBe(500);
  budgets.published(states.board, at + 10 * STATE_INTERVAL_US);
  expect(dueBy()).toBe(500);
  const fixed = new Budgets(CHAIN, "share", { leastUs: () => 100 });
  fixed.published(states.board, at);
  expect(fixed.dueBy(0, 0, 1000, 0)).toBe(500);
});
