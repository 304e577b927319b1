/**
 * How much work a JSON text may be, counted before it is parsed: JSON.parse of 60 MiB of `{},` takes 20 s and gigabytes.
 *
 * The count is one pass over the bytes that knows strings and brackets and nothing else; what is no JSON is left to the
 * parser to say.
 */
import { ServingError } from "../serving-error.js";

/** Deeper than any tensor (RANK_MAX) within its inputs. */
export const JSON_DEPTH_MAX = 128;
/** A request has three for each tensor; an object costs the parser as much as a hundred bytes of numbers. */
const OBJECTS_MAX = 16_384;
const MEMBERS_MAX = 65_536;
/** Rows of nested data. Flat data has none, and binary data needs no parsing. */
const ARRAYS_MAX = 1_048_576;
const STRINGS_MAX = 4_194_304;
const VALUES_MAX = 16_777_216;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** @throws ServingError invalid-argument with reason json-too-complex, as soon as a bound is passed. */
export function checkJsonBounds(json: Buffer): void {
  let depth = 0;
  let objects = 0;
  let members = 0;
  let arrays = 0;
  let strings = 0;
  let values = 1;
  const { length } = json;
  for (let at = 0; at < length; at++) {
    switch (json[at]) {
      case QUOTE:
        if (++strings > STRINGS_MAX) throw tooComplex("strings", STRINGS_MAX);
        at = stringEnd(json, at);
        break;
      case COMMA:
        if (++values > VALUES_MAX) throw tooComplex("values", VALUES_MAX);
        break;
      case COLON:
        if (++members > MEMBERS_MAX) throw tooComplex("members of objects", MEMBERS_MAX);
        break;
      case OPEN_ARRAY:
        if (++arrays > ARRAYS_MAX) throw tooComplex("arrays", ARRAYS_MAX);
        if (++depth > JSON_DEPTH_MAX) throw tooComplex("levels of nesting", JSON_DEPTH_MAX);
        break;
      case OPEN_OBJECT:
        if (++objects > OBJECTS_MAX) throw tooComplex("objects", OBJECTS_MAX);
        if (++depth > JSON_DEPTH_MAX) throw tooComplex("levels of nesting", JSON_DEPTH_MAX);
        break;
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        depth--;
        break;
    }
  }
}

const tooComplex = (what: string, most: number): ServingError =>
  new ServingError(
    "invalid-argument",
    `the JSON of the request body must have at most ${most} ${what}, got more; flat or binary data has fewer`,
    { reason: "json-too-complex" },
  );

/** Searched by hand so far: most strings are short, and a call of the runtime's search costs as much as this. */
const NEAR_BYTES = 24;

/** Index of the closing quote of the string that opens at `at`, or the text's length where it is not closed. */
export function stringEnd(json: Buffer, at: number): number {
  const near = Math.min(json.length, at + NEAR_BYTES);
  let end = at + 1;
  for (; end < near; end++) {
    const byte = json[end];
    if (byte === QUOTE) return end;
    if (byte === BACKSLASH) end++;
  }
  for (;;) {
    end = json.indexOf(QUOTE, end);
    if (end < 0) return json.length;
    let slashes = 0;
    while (json[end - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
    end++;
  }
}
