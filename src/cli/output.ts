/** Where commands write: results on stdout, everything else on stderr. Tests pass their own. */
export interface Output {
  /** The result; the only thing on stdout. */
  result(text: string): void;
  /** Progress and remarks, on stderr. */
  note(text: string): void;
  /** True if stderr is a terminal, where a line may be drawn over. */
  readonly interactive: boolean;
}

export const processOutput: Output = {
  result: (text) => void process.stdout.write(text.endsWith("\n") ? text : `${text}\n`),
  note: (text) => void process.stderr.write(text.endsWith("\n") || text.startsWith("\r") ? text : `${text}\n`),
  get interactive() {
    return process.stderr.isTTY === true;
  },
};

/** With `--json`: exactly one document on stdout. */
export function writeJson(output: Output, value: unknown): void {
  output.result(`${JSON.stringify(value, null, 2)}\n`);
}
