import fc from "fast-check";
import { expect, test } from "vitest";
import { parseLossless } from "./lossless-json.js";

test("lossless-json: equals JSON.parse where a double is exact (seed 1)", () => {
  fc.assert(
    fc.property(fc.json(), fc.constantFrom("", " ", "\n\t"), (text, space) => {
      const want = JSON.parse(text);
      const spaced = `${space}${JSON.stringify(want, null, space)}${space}`;
      const big = (value: unknown): unknown =>
        typeof value === "bigint"
          ? Number(value)
          : Array.isArray(value)
            ? value.map(big)
            : value !== null && typeof value === "object"
              ? Object.fromEntries(Object.entries(value).map(([key, member]) => [key, big(member)]))
              : value;
      expect(big(parseLossless(spaced))).toEqual(want);
    }),
    { seed: 1, numRuns: 300 },
  );
});

test("lossless-json: keeps integers beyond 2^53 as bigint, others as numbers", () => {
  expect(parseLossless("[9007199254740993, -9223372036854775808, 9007199254740991, 1e300, 0.5]")).toEqual([
    9007199254740993n,
    -9223372036854775808n,
    9007199254740991,
    1e300,
    0.5,
  ]);
});

test("lossless-json: a __proto__ key is a plain member", () => {
  const value = parseLossless('{"__proto__": {"x": 1}}') as object;
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  expect(Object.keys(value)).toEqual(["__proto__"]);
});

test.each(["", "[1,]", "[01]", "{'a':1}", "[1] 2", '"\\q"', "nul", "[", '{"a"}', `${"[".repeat(200)}`])(
  "lossless-json: refuses %s",
  (text) => {
    expect(() => parseLossless(text)).toThrow(SyntaxError);
  },
);

test("lossless-json: a string of 40 MB, and spaces as long, beside an integer beyond 2^53", () => {
  const long = "x".repeat(40_000_000);
  const value = parseLossless(`{"s":"${long}",${" ".repeat(20_000_000)}"n":[9007199254740993]}`) as {
    s: string;
    n: unknown;
  };
  expect([value.s.length, value.n]).toEqual([40_000_000, [9007199254740993n]]);
});

test("lossless-json: strings end where JSON.parse ends them", () => {
  for (const text of ['"\\\\"', '"a\\"b"', '"\\\\\\""', '["\\\\","\\""]'])
    expect(parseLossless(text)).toEqual(JSON.parse(text));
});

test("lossless-json: an integer longer than any of 64 bits stays a number, in linear time", () => {
  expect(parseLossless("[18446744073709551615,-9223372036854775808,184467440737095516150]")).toEqual([
    18446744073709551615n,
    -9223372036854775808n,
    1.8446744073709552e20,
  ]);
  expect(parseLossless("1".repeat(200_000))).toBe(Number.POSITIVE_INFINITY);
});
