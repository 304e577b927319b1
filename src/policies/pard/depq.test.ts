import fc from "fast-check";
import { expect, test } from "vitest";
import { Depq, DepqPlaces } from "./depq.js";

/** Looks at all. */
class NaiveDepq {
  private readonly entries: { id: number; priority: number; coming: number }[] = [];
  private came = 0;

  get ordered(): number[] {
    return [...this.entries].sort((a, b) => a.priority - b.priority || a.coming - b.coming).map(({ id }) => id);
  }
  put(id: number, priority: number): void {
    this.entries.push({ id, priority, coming: this.came++ });
  }
  remove(id: number): void {
    this.entries.splice(
      this.entries.findIndex((each) => each.id === id),
      1,
    );
  }
}

const operation = fc.record({
  kind: fc.constantFrom("put", "put", "put", "put", "least", "most", "any"),
  priority: fc.integer({ min: 0, max: 40 }),
  which: fc.nat(10_000),
});

test("depq: least, most and what is left are those of a sorted list, over random puts and removals", () => {
  let most = 0;
  fc.assert(
    fc.property(fc.array(operation, { minLength: 300, maxLength: 700, size: "max" }), (operations) => {
      const depq = new Depq();
      const twin = new NaiveDepq();
      let next = 0;
      for (const { kind, priority, which } of operations) {
        const { ordered } = twin;
        if (kind === "put") {
          depq.put(next, priority);
          twin.put(next++, priority);
        } else if (ordered.length > 0) {
          const id = kind === "least" ? depq.least : kind === "most" ? depq.most : ordered[which % ordered.length]!;
          depq.remove(id);
          twin.remove(id);
        }
        const now = twin.ordered;
        expect([depq.size, depq.least, depq.most]).toEqual([now.length, now[0] ?? -1, now.at(-1) ?? -1]);
        most = Math.max(most, now.length);
      }
      const left: number[] = [];
      depq.forEach((id) => void left.push(id));
      expect(left.sort((a, b) => a - b)).toEqual(twin.ordered.sort((a, b) => a - b));
    }),
    { numRuns: 40, seed: 43 },
  );
  expect(most).toBeGreaterThan(50);
});

test("depq: heaps that share their places hold an id once, and know their own", () => {
  const places = new DepqPlaces();
  const [one, other] = [new Depq(places), new Depq(places)];
  one.put(3, 1);
  expect(() => other.put(3, 1)).toThrow("request 3 is queued already");
  expect(() => other.remove(3)).toThrow("request 3 is not queued here");
  one.remove(3);
  other.put(3, 2);
  expect([one.size, other.leastPriority]).toEqual([0, 2]);
});
