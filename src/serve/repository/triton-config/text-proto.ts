/**
 * A reader of protobuf text format, as protobuf's own tokenizer reads it. It knows no schema: numbers and words stay as
 * they stand, strings are bytes, and every field and value keeps its place for whoever holds them against one.
 */
import { ServingError } from "../../../wire/serving-error.js";

export type TextValue =
  | { readonly kind: "message"; readonly at: number; readonly fields: readonly TextField[] }
  | { readonly kind: "string"; readonly at: number; readonly bytes: Buffer }
  /** `text` without its sign. */
  | { readonly kind: "word" | "number"; readonly at: number; readonly text: string; readonly isNegative: boolean };

export interface TextField {
  readonly name: string;
  readonly at: number;
  readonly values: readonly TextValue[];
  /** Written `[a, b]`, which only a repeated field may be. */
  readonly isList: boolean;
}

interface Token {
  readonly kind: "word" | "number" | "string" | "symbol" | "end";
  readonly text: string;
  readonly at: number;
}

/** Messages nested deeper are refused: no configuration is, and recursion must end. */
const DEPTH_MAX = 32;

/** @throws ServingError invalid-argument as `FILE:LINE:COLUMN: expected ..., found ...`. */
export function parseTextProto(text: string, file: string): readonly TextField[] {
  return new Parser(text, file).parse();
}

/** `FILE:LINE:COLUMN` of a place in its text. */
export function placeOf(text: string, file: string, at: number): string {
  const before = text.slice(0, at).split("\n");
  return `${file}:${before.length}:${before.at(-1)!.length + 1}`;
}

class Parser {
  private at: number;
  private token: Token;

  constructor(
    private readonly text: string,
    private readonly file: string,
  ) {
    this.at = text.startsWith("\ufeff") ? 1 : 0;
    this.token = { kind: "end", text: "", at: 0 };
    this.next();
  }

  parse(): readonly TextField[] {
    return this.fields("", 0);
  }

  private fields(closer: string, depth: number): readonly TextField[] {
    if (depth > DEPTH_MAX) this.fail(`messages nested at most ${DEPTH_MAX} deep`);
    const fields: TextField[] = [];
    for (;;) {
      if (closer === "" ? this.token.kind === "end" : this.takes(closer)) return fields;
      if (this.token.kind !== "word") this.fail(closer === "" ? "a field name" : `a field name or '${closer}'`);
      const { text: name, at } = this.token;
      this.next();
      const hasColon = this.takes(":");
      const isList = this.isSymbol("[");
      const values = isList ? this.list(hasColon, depth) : [this.value(hasColon, depth)];
      fields.push({ name, at, values, isList });
      if (!this.takes(",")) this.takes(";");
    }
  }

  private list(hasColon: boolean, depth: number): TextValue[] {
    const values: TextValue[] = [];
    this.next();
    if (this.takes("]")) return values;
    do values.push(this.value(hasColon, depth));
    while (this.takes(","));
    if (!this.takes("]")) this.fail("',' or ']'");
    return values;
  }

  private value(scalarAllowed: boolean, depth: number): TextValue {
    const { at } = this.token;
    if (this.takes("{")) return { kind: "message", at, fields: this.fields("}", depth + 1) };
    if (this.takes("<")) return { kind: "message", at, fields: this.fields(">", depth + 1) };
    if (!scalarAllowed) this.fail("':' or '{'");
    if (this.token.kind === "string") return { kind: "string", at, bytes: this.strings() };
    const isNegative = this.takes("-");
    const { kind, text } = this.token;
    if (kind !== "number" && kind !== "word") this.fail(isNegative ? "a number" : "a value");
    this.next();
    return { kind, at, text, isNegative };
  }

  /** Adjacent strings are one, as in C. */
  private strings(): Buffer {
    const parts: Buffer[] = [];
    for (; this.token.kind === "string"; this.next()) parts.push(this.unquote(this.token));
    return Buffer.concat(parts);
  }

  private unquote({ text, at }: Token): Buffer {
    const parts: Buffer[] = [];
    const body = text.slice(1, -1);
    const piece = /\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]?))|[^\\]+/g;
    for (const [whole, octal, hex, short, long, letter] of body.matchAll(piece)) {
      const byte =
        octal !== undefined ? Number.parseInt(octal, 8) : hex !== undefined ? Number.parseInt(hex, 16) : null;
      const point = Number.parseInt(short ?? long ?? "", 16);
      if (byte !== null && byte < 256) parts.push(Buffer.of(byte));
      else if (point <= 0x10ffff) parts.push(Buffer.from(String.fromCodePoint(point)));
      else if (letter === undefined && !whole.startsWith("\\")) parts.push(Buffer.from(whole));
      else if (letter !== undefined && ESCAPES[letter] !== undefined) parts.push(Buffer.from(ESCAPES[letter]));
      else this.failAt(at, "an escape sequence of protobuf", `'${whole}'`);
    }
    return Buffer.concat(parts);
  }

  private isSymbol(symbol: string): boolean {
    return this.token.kind === "symbol" && this.token.text === symbol;
  }

  private takes(symbol: string): boolean {
    if (!this.isSymbol(symbol)) return false;
    this.next();
    return true;
  }

  private next(): void {
    this.match(/(?:[ \n\t\r\v\f]+|#[^\n]*)*/y);
    const { at } = this;
    this.token = this.scan(at);
  }

  private scan(at: number): Token {
    if (at >= this.text.length) return { kind: "end", text: "the end of the file", at };
    const word = this.match(/[A-Za-z_][A-Za-z0-9_]*/y);
    if (word !== null) return { kind: "word", text: word, at };
    const number = this.match(/0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?/y);
    if (number !== null) {
      const rest = this.match(/[A-Za-z0-9_.]+/y);
      if (rest !== null || /^0\d*[89]\d*$/.test(number)) this.failAt(at, "a number", `'${number}${rest ?? ""}'`);
      return { kind: "number", text: number, at };
    }
    const string = this.match(/"(?:[^"\\\n\0]|\\[^\n\0])*"|'(?:[^'\\\n\0]|\\[^\n\0])*'/y);
    if (string !== null) return { kind: "string", text: string, at };
    const symbol = this.match(/[{}<>[\]:,;-]/y);
    if (symbol !== null) return { kind: "symbol", text: symbol, at };
    this.token = { kind: "symbol", text: String.fromCodePoint(this.text.codePointAt(at)!), at };
    return this.fail("a field, a value or a bracket");
  }

  private match(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) return null;
    this.at = pattern.lastIndex;
    return found[0];
  }

  private fail(expected: string): never {
    const { at, kind, text } = this.token;
    return this.failAt(at, expected, kind === "end" ? text : `'${text}'`);
  }

  private failAt(at: number, expected: string, found: string): never {
    const place = placeOf(this.text, this.file, at);
    throw new ServingError("invalid-argument", `${place}: expected ${expected}, found ${found}`);
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "\\": "\\",
  "'": "'",
  '"': '"',
  "?": "?",
};
