import { describe, expect, it } from "vitest";
import { formatNumber, formatPercent, renderPairs, renderTable } from "./table.js";

describe("tables", () => {
  it("align names left and numbers right, without trailing space", () => {
    const text = renderTable(
      [{ title: "model" }, { title: "bad", align: "right" }, { title: "" }],
      [
        ["a", "1.00 %", ""],
        ["longer", "12.00 %", "x"],
      ],
    );
    expect(text).toBe("model       bad\na        1.00 %\nlonger  12.00 %  x");
  });
  it("pairs share one column", () => {
    expect(
      renderPairs([
        ["a", "1"],
        ["long", "2"],
      ]),
    ).toBe("a     1\nlong  2");
  });
  it("numbers show three figures or more and never false precision", () => {
    expect([5264.318, 123.45, 12.345, 1.2345, 0.012345, 0, 7, null, Number.NaN].map((n) => formatNumber(n))).toEqual([
      "5,264",
      "123",
      "12.3",
      "1.23",
      "0.0123",
      "0",
      "7",
      "–",
      "–",
    ]);
    expect(formatPercent(0.01234)).toBe("1.23 %");
  });
});
