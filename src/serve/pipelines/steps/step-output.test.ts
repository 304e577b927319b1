import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { VirtualClock } from "../../../../test/support/virtual-clock.js";
import type { Log } from "../../observation/log.js";
import { StepOutput } from "./step-output.js";

const SECOND = 1_000_000;

class Printed {
  readonly clock = new VirtualClock();
  readonly lines: string[] = [];
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  readonly output: StepOutput;

  constructor() {
    const log = {
      info: (_: object, line: string) => this.lines.push(line),
      warn: (_: object, line: string) => this.lines.push(`! ${line}`),
    } as unknown as Log;
    this.output = new StepOutput("p", this.clock, log);
    this.output.follow(this.stdout, "info");
    this.output.follow(this.stderr, "warn");
  }

  /** Data events of a stream come in a later turn of the loop. */
  async print(text: string, to = this.stdout): Promise<string[]> {
    to.write(text);
    await new Promise((heard) => setImmediate(heard));
    return this.lines.splice(0);
  }
}

const numbered = (from: number, count: number): string =>
  Array.from({ length: count }, (_, line) => `${from + line}\n`).join("");

test("lines are logged as they come, cut ones when they are whole", async () => {
  const printed = new Printed();
  expect(await printed.print("one\ntw")).toEqual(["one"]);
  expect(await printed.print("o\n\nthree\n")).toEqual(["two", "three"]);
  expect(await printed.print("bad\n", printed.stderr)).toEqual(["! bad"]);
});

test("100 lines a second of both streams; then bytes are counted, and said when the second is over", async () => {
  const printed = new Printed();
  expect(await printed.print(numbered(1000, 60), printed.stderr)).toHaveLength(60);
  const lines = await printed.print(numbered(2000, 50));
  expect([lines.length, lines[0], lines.at(-1)]).toEqual([40, "2000", "2039"]);
  expect(await printed.print("x".repeat(1_000_000))).toEqual([]);
  expect(await printed.print("yyy", printed.stderr)).toEqual([]);
  printed.clock.advance(SECOND);
  expect(printed.lines.splice(0)).toEqual([
    "! steps printed more than 100 lines in a second: 1000053 bytes were left out",
  ]);
  // The line that was cut is left out to its end.
  expect(await printed.print("xxx\nafter\n")).toEqual(["after"]);
  expect(await printed.print("y\nalso after\n", printed.stderr)).toEqual(["! also after"]);
  printed.output.close();
  expect(printed.lines).toEqual(["! steps printed more than 100 lines in a second: 6 bytes were left out"]);
});

test("a flood is as many lines as there are seconds, and as many of what was left out", async () => {
  const printed = new Printed();
  let logged = 0;
  for (let second = 0; second < 5; second++) {
    for (let chunk = 0; chunk < 20; chunk++) logged += (await printed.print(numbered(0, 1000))).length;
    printed.clock.advance(SECOND);
  }
  logged += printed.lines.length;
  expect(logged).toBe(5 * 101);
});
