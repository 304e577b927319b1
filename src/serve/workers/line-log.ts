/** Splits what a child process prints into lines of bounded length. */
import type { Readable } from "node:stream";

/** Longer lines are cut: a runtime that dumps a graph must not fill the log. */
const LINE_CHARS_MAX = 4096;

export class LineSplitter {
  private rest = "";

  constructor(private readonly onLine: (line: string) => void) {}

  push(text: string): void {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop()!;
    for (const line of lines) this.emit(line);
    if (this.rest.length > LINE_CHARS_MAX) this.end();
  }

  /** The line that has begun is whole. */
  end(): void {
    const { rest } = this;
    this.rest = "";
    this.emit(rest);
  }

  private emit(line: string): void {
    const text = line.trimEnd();
    if (text !== "") this.onLine(text.slice(0, LINE_CHARS_MAX));
  }
}

export function forEachLine(stream: Readable, onLine: (line: string) => void): void {
  const lines = new LineSplitter(onLine);
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => lines.push(chunk));
  stream.on("end", () => lines.end());
  stream.on("error", () => {});
}
