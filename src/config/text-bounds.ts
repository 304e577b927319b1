/** What a text holds, found in one pass before anything is parsed: parsers take a stack for its depth, and seconds for what nobody means. */
import { Lexer } from "yaml";

export interface TextBounds {
  readonly keysMax: number;
  /** Keys, too. */
  readonly valuesMax: number;
}

export const DEPTH_MAX = 64;
/** Of the lexer: what follows is a plain scalar's text, or a block's. */
const SCALAR = "\x1f";

/** @returns what is wrong with it; null: nothing. Of YAML or JSON. */
export function boundsProblem(text: string, bounds: TextBounds | null): string | null {
  let depth = 0;
  /** Lists and keys that begin in one line. */
  let inLine = 0;
  let keys = 0;
  let values = 0;
  let isText = false;
  for (const token of new Lexer().lex(text)) {
    const isPlain = isText;
    isText = token === SCALAR;
    if (isText || isPlain) {
      values += isText ? 1 : 0;
      continue;
    }
    switch (token[0]) {
      case "[":
      case "{":
        depth++;
        break;
      case "]":
      case "}":
        depth--;
        break;
      case "-":
      case "?":
        inLine += depth === 0 ? 1 : 0;
        break;
      case "\n":
        inLine = 0;
        break;
      case ":":
        keys++;
        break;
      case '"':
      case "'":
      case "*":
        values++;
        break;
    }
    if (depth > DEPTH_MAX || inLine > DEPTH_MAX) return DEEP;
    if (bounds === null) continue;
    if (keys > bounds.keysMax) return `must have at most ${bounds.keysMax} keys`;
    if (values > bounds.valuesMax) return `must have at most ${bounds.valuesMax} keys and values`;
  }
  return null;
}

export const DEEP = `must nest at most ${DEPTH_MAX} levels deep`;
