/**
 * JSON without loss of 64-bit integers: an integer literal that a double cannot hold exactly becomes a bigint.
 *
 * Used only when a request has INT64 or UINT64 data above 2^53 (JSON.parse is several times faster and serves the rest).
 * Accepts exactly JSON (RFC 8259), nesting up to JSON_DEPTH_MAX. The text must have passed JSON.parse, so errors here are rare;
 * they are still SyntaxErrors, never a wrong value.
 */
import { JSON_DEPTH_MAX } from "./json-bounds.js";

/** Characters of the longest 64-bit integer; what is longer is none, and stays a number however long. */
const INTEGER_LENGTH_MAX = 20;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;

export function parseLossless(text: string): unknown {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.space();
  if (reader.at !== text.length) throw reader.unexpected();
  return value;
}

class Reader {
  at = 0;
  constructor(readonly text: string) {}

  space(): void {
    let code = this.text.charCodeAt(this.at);
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) code = this.text.charCodeAt(++this.at);
  }

  unexpected(): SyntaxError {
    return new SyntaxError(`unexpected ${JSON.stringify(this.text[this.at] ?? "end of text")} at position ${this.at}`);
  }

  value(depth: number): unknown {
    if (depth > JSON_DEPTH_MAX) throw new SyntaxError(`nesting must be at most ${JSON_DEPTH_MAX} deep`);
    this.space();
    switch (this.text[this.at]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.array(depth);
      case '"':
        return this.string();
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
      default:
        return this.number();
    }
  }

  private word<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) throw this.unexpected();
    this.at += word.length;
    return value;
  }

  private number(): number | bigint {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (match === null) throw this.unexpected();
    this.at = NUMBER.lastIndex;
    const value = Number(match[0]);
    const isInteger = match[1] === undefined && match[2] === undefined && match[0].length <= INTEGER_LENGTH_MAX;
    return isInteger && !Number.isSafeInteger(value) ? BigInt(match[0]) : value;
  }

  private string(): string {
    // By search, not by a regular expression: its stack does not hold a string of 10 MB.
    const { at, text } = this;
    let end = at;
    let slashes: number;
    do {
      end = text.indexOf('"', end + 1);
      if (end < 0) throw this.unexpected();
      slashes = 0;
      while (text[end - 1 - slashes] === "\\") slashes++;
    } while (slashes % 2 === 1);
    this.at = end + 1;
    return JSON.parse(text.slice(at, end + 1)) as string;
  }

  private array(depth: number): unknown[] {
    const items: unknown[] = [];
    this.at++;
    this.space();
    if (this.text[this.at] === "]") {
      this.at++;
      return items;
    }
    for (;;) {
      items.push(this.value(depth + 1));
      this.space();
      const next = this.text[this.at];
      if (next !== "," && next !== "]") throw this.unexpected();
      this.at++;
      if (next === "]") return items;
    }
  }

  private object(depth: number): Record<string, unknown> {
    const members: [string, unknown][] = [];
    this.at++;
    this.space();
    if (this.text[this.at] === "}") {
      this.at++;
      return {};
    }
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') throw this.unexpected();
      const key = this.string();
      this.space();
      if (this.text[this.at] !== ":") throw this.unexpected();
      this.at++;
      members.push([key, this.value(depth + 1)]);
      this.space();
      const next = this.text[this.at];
      if (next !== "," && next !== "}") throw this.unexpected();
      this.at++;
      // fromEntries defines members, so a "__proto__" key stays a plain member.
      if (next === "}") return Object.fromEntries(members);
    }
  }
}
