/**
 * The request parameter `timeout` of a body that is not parsed yet, to order what waits to be parsed by deadline.
 *
 * Only the start of the text is looked at, and only for what stands in `parameters` of the request itself. It is the
 * client's own deadline: one that writes it so that this reads it wrongly is answered 504 itself, and harms nobody.
 */
import { stringEnd } from "./json-bounds.js";

/** A millisecond or two of the main thread. */
const LOOK_BYTES_MAX = 1024 * 1024;
const VALUE = /^\s*:\s*"?(\d{1,16})(?=[",}\s])/;

/** @returns microseconds; null when absent, 0 (the model's default), or further back than is looked. */
export function timeoutHintUs(json: Buffer): number | null {
  const end = Math.min(json.length, LOOK_BYTES_MAX);
  let depth = 0;
  let member = "";
  for (let at = 0; at < end; at++) {
    switch (json[at]) {
      case 0x7b:
      case 0x5b:
        depth++;
        break;
      case 0x7d:
      case 0x5d:
        depth--;
        break;
      case 0x22: {
        const close = stringEnd(json, at);
        const isShort = close - at <= 16;
        if (depth === 1 && isKey(json, close)) member = isShort ? json.toString("latin1", at + 1, close) : "";
        else if (
          depth === 2 &&
          member === "parameters" &&
          isShort &&
          json.toString("latin1", at + 1, close) === "timeout"
        ) {
          const value = VALUE.exec(json.toString("latin1", close + 1, close + 64));
          if (value !== null) return Number(value[1]) || null;
        }
        at = close;
        break;
      }
    }
  }
  return null;
}

/** Whether the string that closes at `close` is followed by a colon: a member's name, not its value. */
function isKey(json: Buffer, close: number): boolean {
  let at = close + 1;
  while (json[at] === 0x20 || json[at] === 0x0a || json[at] === 0x0d || json[at] === 0x09) at++;
  return json[at] === 0x3a;
}
