import fc from "fast-check";
import { expect, test } from "vitest";
import { checkJsonBounds, JSON_DEPTH_MAX, stringEnd } from "./json-bounds.js";
import { timeoutHintUs } from "./timeout-hint.js";

const check = (text: string): void => checkJsonBounds(Buffer.from(text));

test.each([
  ["levels of nesting", (count: number) => "[".repeat(count), JSON_DEPTH_MAX],
  ["levels of nesting", (count: number) => '{"a":'.repeat(count), JSON_DEPTH_MAX],
  ["objects", (count: number) => "{},".repeat(count), 16_384],
  ["members of objects", (count: number) => '"a":0,'.repeat(count), 65_536],
  ["arrays", (count: number) => "[],".repeat(count), 1_048_576],
  ["strings", (count: number) => '"" '.repeat(count), 4_194_304],
  ["values", (count: number) => "0,".repeat(count - 1), 16_777_216],
])("json-bounds: %s of %s", (what, make, most) => {
  expect(() => check(make(most))).not.toThrow();
  expect(() => check(make(most + 1))).toThrow(
    expect.objectContaining({ code: "invalid-argument", message: expect.stringContaining(`at most ${most} ${what}`) }),
  );
});

test("json-bounds: what stands in strings is not counted, however they are escaped (seed 2)", () => {
  const bracket = fc.constantFrom("[", "{", '"', "\\", ",", ":", "x", "é");
  fc.assert(
    fc.property(fc.array(bracket, { maxLength: 60 }), (characters) => {
      const text = JSON.stringify(characters.join(""));
      const bytes = Buffer.from(`${text}]`);
      expect(stringEnd(bytes, 0)).toBe(bytes.byteLength - 2);
      // 200 of them would pass the bound of depth, were they counted.
      check(`[${new Array(200).fill(text).join(",")}]`);
    }),
    { seed: 2, numRuns: 300 },
  );
  expect(stringEnd(Buffer.from('"open'), 0)).toBe(5);
});

test("timeout-hint: the request's own parameter, wherever it stands, and no other", () => {
  const hint = (value: unknown): number | null => timeoutHintUs(Buffer.from(JSON.stringify(value)));
  expect(hint({ id: "v", parameters: { pad: 'x"{'.repeat(100), timeout: 100_000 }, inputs: [] })).toBe(100_000);
  expect(hint({ inputs: [{ name: "x", data: [[1], [2]] }], parameters: { timeout: "77" } })).toBe(77);
  expect(timeoutHintUs(Buffer.from('{ "parameters" : { "timeout" : 5 } }'))).toBe(5);
  for (const other of [
    {},
    { timeout: 5 },
    { parameters: { timeout: 0 } },
    { parameters: { timeout: -5 } },
    { parameters: { timeout: 1.5 } },
    { parameters: { "time-out": 5 }, id: "timeout" },
    { inputs: [{ parameters: { timeout: 5 } }] },
    { parameters: "x", other: { timeout: 5 } },
    { parameters: { a: { timeout: 5 } } },
    { id: '"parameters":{"timeout":5}' },
    { pad: "x".repeat(1024 * 1024), parameters: { timeout: 5 } },
  ])
    expect([JSON.stringify(other).slice(0, 60), hint(other)]).toEqual([JSON.stringify(other).slice(0, 60), null]);
});
