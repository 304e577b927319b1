/**
 * A reader of protobuf text format, as much as `config.pbtxt` needs: scalars, strings, enums, messages, lists.
 * It knows no schema: every field is a list of values, and what nobody asks for is ignored.
 */
import { ServingError } from "../wire/serving-error.js";

export type TextValue = string | number | boolean | TextMessage;
/** Field name -> values in order of appearance. An enum or an unquoted word is an object of its own kind: see `word`. */
export type TextMessage = ReadonlyMap<string, readonly TextValue[]>;

type Token =
  | { readonly kind: "word" | "string" | "symbol" | "end"; readonly text: string; readonly at: number }
  | { readonly kind: "number"; readonly text: string; readonly value: number; readonly at: number };

/** Messages nested deeper are refused: no configuration is, and recursion must end. */
const DEPTH_MAX = 32;

/** @throws ServingError invalid-argument as `FILE:LINE:COLUMN: expected ..., found ...`. */
export function parseTextProto(text: string, file: string): TextMessage {
  return new Parser(text, file).parse();
}

class Parser {
  private at = 0;
  private token: Token;

  constructor(
    private readonly text: string,
    private readonly file: string,
  ) {
    this.token = this.scan();
  }

  parse(): TextMessage {
    return this.fields("", 0);
  }

  private fields(closer: string, depth: number): TextMessage {
    if (depth > DEPTH_MAX) this.fail(`messages nested at most ${DEPTH_MAX} deep`);
    const message = new Map<string, TextValue[]>();
    for (;;) {
      if (closer === "" ? this.token.kind === "end" : this.takes(closer)) return message;
      if (this.token.kind !== "word") this.fail(closer === "" ? "a field name" : `a field name or '${closer}'`);
      const name = this.token.text;
      this.token = this.scan();
      const values = message.get(name) ?? [];
      message.set(name, values);
      const hasColon = this.takes(":");
      if (this.token.text === "[" && this.token.kind === "symbol") this.list(values, depth);
      else values.push(this.value(hasColon, depth));
      if (!this.takes(",")) this.takes(";");
    }
  }

  private list(values: TextValue[], depth: number): void {
    this.token = this.scan();
    if (this.takes("]")) return;
    do values.push(this.value(true, depth));
    while (this.takes(","));
    if (!this.takes("]")) this.fail("',' or ']'");
  }

  private value(scalarAllowed: boolean, depth: number): TextValue {
    if (this.takes("{")) return this.fields("}", depth + 1);
    if (this.takes("<")) return this.fields(">", depth + 1);
    if (!scalarAllowed) this.fail("':' or '{'");
    const token = this.token;
    switch (token.kind) {
      case "number":
        this.token = this.scan();
        return token.value;
      case "string": {
        let joined = "";
        // Adjacent strings are one, as in C.
        while (this.token.kind === "string") {
          joined += this.token.text;
          this.token = this.scan();
        }
        return joined;
      }
      case "word":
        this.token = this.scan();
        if (token.text === "true" || token.text === "false") return token.text === "true";
        return token.text;
      default:
        return this.fail("a value");
    }
  }

  private takes(symbol: string): boolean {
    if (this.token.kind !== "symbol" || this.token.text !== symbol) return false;
    this.token = this.scan();
    return true;
  }

  private scan(): Token {
    const skip = /(?:\s+|#[^\n]*)*/y;
    skip.lastIndex = this.at;
    skip.exec(this.text);
    this.at = skip.lastIndex;
    const at = this.at;
    if (at >= this.text.length) return { kind: "end", text: "the end of the file", at };
    const word = this.match(/[A-Za-z_][A-Za-z0-9_.]*/y);
    if (word !== null) return { kind: "word", text: word, at };
    const number = this.match(/[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fF]?/y);
    if (number !== null) return { kind: "number", text: number, value: toNumber(number), at };
    const string = this.match(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y);
    if (string !== null) return { kind: "string", text: unquote(string.slice(1, -1)), at };
    const symbol = this.match(/[{}<>[\]:,;]/y);
    if (symbol !== null) return { kind: "symbol", text: symbol, at };
    this.token = { kind: "symbol", text: this.text[at]!, at };
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
    const before = this.text.slice(0, at).split("\n");
    const place = `${this.file}:${before.length}:${before[before.length - 1]!.length + 1}`;
    throw new ServingError(
      "invalid-argument",
      `${place}: expected ${expected}, found ${kind === "end" ? text : `'${text}'`}`,
    );
  }
}

function toNumber(text: string): number {
  if (/^[-+]?0[xX]/.test(text)) {
    const magnitude = Number.parseInt(text.replace(/^[-+]/, ""), 16);
    return text.startsWith("-") ? -magnitude : magnitude;
  }
  return Number.parseFloat(text);
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r" };
function unquote(text: string): string {
  return text.replace(/\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)/g, (_, code: string) => {
    if (/^x./.test(code)) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
    if (/^[0-7]/.test(code)) return String.fromCharCode(Number.parseInt(code, 8));
    return ESCAPES[code] ?? code;
  });
}
