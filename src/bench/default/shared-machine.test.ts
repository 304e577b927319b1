import { expect, test } from "vitest";
import { SharedMachine } from "./shared-machine.js";

const machineOf = (rps: number) => new SharedMachine({ leastRps: rps, firstRps: rps, mostRps: rps });

/** Work that says when it began and ends when it is told. */
function works(machine: SharedMachine) {
  const began: string[] = [];
  const ends = new Map<string, () => void>();
  const start = (name: string, rps: number) =>
    machine.run(rps, () => {
      began.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    });
  const end = async (name: string) => {
    ends.get(name)!();
    await settled();
  };
  return { began, start, end };
}
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

test("work runs at once while its rates stay within what the machine carries; who fits passes who does not", async () => {
  const { began, start, end } = works(machineOf(1000));
  for (const [name, rps] of [
    ["a", 600],
    ["b", 400],
    ["c", 700],
    ["d", 100],
  ] as const)
    void start(name, rps);
  await settled();
  expect(began).toEqual(["a", "b"]);
  // 600 are free, c needs 700.
  await end("a");
  expect(began).toEqual(["a", "b", "d"]);
  await end("b");
  expect(began).toEqual(["a", "b", "d", "c"]);
});

test("who waits first is not passed for ever", async () => {
  const { began, start, end } = works(machineOf(1000));
  void start("a", 500);
  void start("large", 600);
  for (let small = 0; small < 20; small++) void start(`${small}`, 50);
  await settled();
  expect(began).toEqual(["a", "0", "1", "2", "3", "4", "5", "6", "7"]);
  for (const name of ["0", "1", "2"]) await end(name);
  expect(began).toHaveLength(9);
  await end("a");
  expect(began[9]).toBe("large");
});

test("work of more than the machine carries runs alone", async () => {
  const { began, start, end } = works(machineOf(1000));
  for (const [name, rps] of [
    ["a", 1],
    ["huge", 5000],
    ["b", 1],
  ] as const)
    void start(name, rps);
  await settled();
  expect(began).toEqual(["a", "b"]);
  await end("a");
  expect(began).toEqual(["a", "b"]);
  await end("b");
  void start("c", 1);
  await settled();
  expect(began).toEqual(["a", "b", "huge"]);
  await end("huge");
  expect(began).toEqual(["a", "b", "huge", "c"]);
});

test("what fails gives its room back, and its error to who asked", async () => {
  const machine = machineOf(10);
  await expect(machine.run(10, () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
  expect(await machine.run(10, async () => "next")).toBe("next");
});

test("carries more after work on time and less after work that was late, within its bounds", () => {
  const machine = new SharedMachine({ leastRps: 500, firstRps: 1000, mostRps: 2000 });
  machine.learn(true);
  const more = machine.rps;
  expect(more).toBeGreaterThan(1000);
  machine.learn(false);
  expect(machine.rps).toBeLessThan(1000);
  for (let run = 0; run < 1000; run++) machine.learn(false);
  expect(machine.rps).toBe(500);
  for (let run = 0; run < 1000; run++) machine.learn(true);
  expect(machine.rps).toBe(2000);
});
