import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseTextProto } from "./text-proto.js";

describe("protobuf's text format", () => {
  const refused: [string, string][] = [
    ["name:", "f:1:6: expected a value, found the end of the file"],
    ['name: "a"\n  input [ { name: "x" ', "f:2:23: expected a field name or '}', found the end of the file"],
    ["a: [1, 2", "f:1:9: expected ',' or ']', found the end of the file"],
    ["a: [1,]", "f:1:7: expected a value, found ']'"],
    ["a 5", "f:1:3: expected ':' or '{', found '5'"],
    ["a [5]", "f:1:4: expected ':' or '{', found '5'"],
    ['a: "unclosed\n', "f:1:4: expected a field, a value or a bracket, found '\"'"],
    ["}", "f:1:1: expected a field name, found '}'"],
    ["a { b: 1 >", "f:1:10: expected a field name or '}', found '>'"],
    ["a: {".repeat(40), "f:1:133: expected messages nested at most 32 deep"],
    [", a: 1", "f:1:1: expected a field name, found ','"],
    ["// x", "f:1:1: expected a field, a value or a bracket, found '/'"],
    ["[type.googleapis.com/x.Y] { a: 1 }", "f:1:1: expected a field name, found '['"],
    ["a.b: 1", "f:1:2: expected a field, a value or a bracket, found '.'"],
    ["a: 4b: 5", "f:1:4: expected a number, found '4b'"],
    ["a: 08", "f:1:4: expected a number, found '08'"],
    ["a: 1.2.3", "f:1:4: expected a number, found '1.2.3'"],
    ["a: +1", "f:1:4: expected a field, a value or a bracket, found '+'"],
    ['a: - "x"', "f:1:6: expected a number, found '\"x\"'"],
    ['a: "\\q"', "f:1:4: expected an escape sequence of protobuf, found '\\q'"],
    ['a: "\\400"', "f:1:4: expected an escape sequence of protobuf, found '\\400'"],
    ["a:\u00a01", "f:1:3: expected a field, a value or a bracket, found '\u00a0'"],
    ["\u{1f600}", "f:1:1: expected a field, a value or a bracket, found '\u{1f600}'"],
  ];
  for (const [text, message] of refused)
    test(`refuses ${JSON.stringify(text.slice(0, 50))}`, () => {
      expect(() => parseTextProto(text, "f")).toThrow(message);
    });

  const strings: [string, Buffer][] = [
    ['"a" \'b\'\n"c"', Buffer.from("abc")],
    ['"\\350\\215\\211"', Buffer.from("\u8349")],
    ['"\\u8349\\U0001F600"', Buffer.from("\u8349\u{1f600}")],
    ['"\\x41\\x4\\101\\0"', Buffer.from("A\x04A\0")],
    [`"\\a\\b\\f\\n\\r\\t\\v\\\\\\'\\"\\?"`, Buffer.from("\x07\b\f\n\r\t\v\\'\"?")],
    ['"\\377"', Buffer.of(255)],
    ['"a\tb # no comment"', Buffer.from("a\tb # no comment")],
    ['""', Buffer.alloc(0)],
  ];
  for (const [text, bytes] of strings)
    test(`a string of bytes: ${text}`, () => {
      expect(parseTextProto(`s: ${text}`, "f")[0]!.values).toEqual([{ kind: "string", at: 3, bytes }]);
    });

  test("separators, brackets, comments, a byte order mark and any line end", () => {
    const same = [
      "a: 1 b { c: -2 } d: [x, y]",
      "a:1,b<c:-2>,d:[x,y],",
      "\ufeffa: 1; b: { c: - 2; };\r\nd: [ # c\n x # c ]\r\n, y ];",
    ].map((text) => JSON.stringify(parseTextProto(text, "f"), (key, value) => (key === "at" ? undefined : value)));
    expect(new Set(same).size).toBe(1);
  });

  test("any text either parses or is refused with a place; nothing else happens", () => {
    const piece = fc.constantFrom(
      "a",
      ":",
      "{",
      "}",
      "[",
      "]",
      "<",
      ">",
      ",",
      '"x"',
      "'",
      "1",
      "-2.5e3",
      "\n",
      " ",
      "#",
      "\\",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        try {
          parseTextProto(pieces.join(""), "f");
        } catch (error) {
          expect((error as Error).message).toMatch(/^f:\d+:\d+: expected /);
        }
      }),
    );
  });
});
