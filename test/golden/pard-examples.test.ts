/** PARD's worked examples (§3.2 with Figure 3a, §4.3 with Figure 7). l(b) = 10 b + 90 µs: d = l(4) = 130. */
import { describe, expect, test } from "vitest";
import { pard } from "../../src/policies/registry.js";
import { HandDriven } from "../support/hand-driven.js";

const D_US = 130;

describe("§3.2: eight arrivals in d, of which a batch of four can be served", () => {
  /** A batch of four runs from 0 to d; R1 to R8 come evenly meanwhile, each with an SLO that bears one wait of d and its run. */
  const run = (priority: "hbf" | "lbf" | "fcfs"): HandDriven => {
    const driven = new HandDriven({ policy: pard({ priority, batch_size: 4 }), sizeMax: 4 });
    driven.arrive(0, "wxyz");
    for (let request = 1; request <= 8; request++) {
      const at = Math.round(((request - 0.5) * D_US) / 8);
      driven.arrive(at, request, 0, at + 3 * D_US - 20);
    }
    return driven.until(10_000);
  };

  test.each([
    // The batch behind the running one takes whoever comes while it has room; the next chooses among those who are left.
    ["hbf", ["0:wxyz", "130:1234", "260:8765"]],
    ["lbf", ["0:wxyz", "130:1234", "260:5678"]],
    ["fcfs", ["0:wxyz", "130:1234", "260:5678"]],
  ] as const)("%s: %j", (priority, dispatches) => {
    expect(run(priority).dispatches).toEqual(dispatches);
  });

  /** All eight wait when the next batch is gathered: four of them are to be given up. */
  const chosen = (priority: "hbf" | "lbf" | "fcfs"): [string[], string[]] => {
    const driven = new HandDriven({ policy: pard({ priority, batch_size: 4 }), sizeMax: 4 });
    driven.arrive(0, "wxyz").arrive(0, "WXYZ");
    for (let request = 1; request <= 8; request++) {
      const at = Math.round(((request - 0.5) * D_US) / 8);
      // Until the end of the batch after the one that is full already, and no further.
      driven.arrive(at, request, 0, 3 * D_US + at);
    }
    driven.until(10_000);
    const kept = [...driven.ended].flatMap(([name, end]) =>
      typeof name === "number" && end === "finished" ? [`R${name}`] : [],
    );
    const dropped = [...driven.ended].flatMap(([name, end]) =>
      typeof name === "number" && end !== "finished" ? [`R${name}`] : [],
    );
    return [kept.sort(), dropped.sort()];
  };

  test("in order of coming R1 to R4 are kept, with three quarters of d of budget gone; high budget first keeps R5 to R8", () => {
    expect(chosen("fcfs")).toEqual([
      ["R1", "R2", "R3", "R4"],
      ["R5", "R6", "R7", "R8"],
    ]);
    expect(chosen("hbf")).toEqual([
      ["R5", "R6", "R7", "R8"],
      ["R1", "R2", "R3", "R4"],
    ]);
  });
});

describe("Figure 7: one more is needed for the batch; R4 came later than R5 but has less left", () => {
  const run = (priority: "lbf" | "fcfs" | "hbf"): HandDriven =>
    new HandDriven({ policy: pard({ priority, batch_size: 2 }), sizeMax: 2 })
      // Behind a, which runs until 100, b and c are gathered and leave room for two of the four that wait when they go.
      .arrive(0, "a")
      .until(0)
      .arrive(10, "bc")
      .arrive(20, 5, 0, 100 + 3 * 110)
      .arrive(30, 3, 0, 100 + 2 * 110 + 5)
      .arrive(40, 4, 0, 100 + 2 * 110 + 10)
      .until(10_000);

  test("low budget first takes R4, and both end in time; in order of coming R5 goes first and one is lost", () => {
    expect(run("lbf").dispatches).toEqual(["0:a", "100:bc", "210:34", "320:5"]);
    expect([4, 5].map((name) => run("lbf").ended.get(name))).toEqual(["finished", "finished"]);
    expect(run("fcfs").dispatches.slice(0, 3)).toEqual(["0:a", "100:bc", "210:53"]);
    expect([4, 5].map((name) => run("fcfs").ended.get(name))).toEqual(["dropped predicted-late", "finished"]);
  });
});
