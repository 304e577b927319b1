import { closeSync, openSync, writeSync } from "node:fs";
import { ConfigError } from "../config/config-error.js";

const LINES_KEPT = 1000;

/** A file that is written line by line, many at a time. */
export class LineFile {
  private readonly descriptor: number;
  private lines: string[] = [];

  /** @throws ConfigError naming the option that asked for it. */
  constructor(file: string, option: string) {
    try {
      this.descriptor = openSync(file, "w");
    } catch (error) {
      throw new ConfigError("command line", [
        { line: null, field: option, message: `must name a file that can be written: ${(error as Error).message}` },
      ]);
    }
  }

  write(line: string): void {
    this.lines.push(line);
    if (this.lines.length >= LINES_KEPT) this.flush();
  }

  close(): void {
    this.flush();
    closeSync(this.descriptor);
  }

  private flush(): void {
    if (this.lines.length > 0) writeSync(this.descriptor, `${this.lines.join("\n")}\n`);
    this.lines = [];
  }
}
