/** Splits what a child process prints into lines of bounded length. */
import type { Readable } from "node:stream";

/** Longer lines are cut: a runtime that dumps a graph must not fill the log. */
const LINE_CHARS_MAX = 4096;

export function forEachLine(stream: Readable, onLine: (line: string) => void): void {
  let rest = "";
  const emit = (line: string): void => {
    const text = line.trimEnd();
    if (text !== "") onLine(text.slice(0, LINE_CHARS_MAX));
  };
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop()!;
    if (rest.length > LINE_CHARS_MAX) {
      emit(rest);
      rest = "";
    }
    for (const line of lines) emit(line);
  });
  stream.on("end", () => emit(rest));
  stream.on("error", () => {});
}
