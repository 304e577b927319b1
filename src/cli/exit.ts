/** How a command ends: 0 success, 1 the run failed, 2 the arguments or the input are wrong. */
import { CommanderError } from "commander";
import { ConfigError } from "../config/config-error.js";
import { ServingError } from "../wire/serving-error.js";

export const EXIT_OK = 0;
export const EXIT_FAILED = 1;
export const EXIT_BAD_INPUT = 2;
/** As shells say it of a program that Ctrl-C ended. */
const EXIT_INTERRUPTED = 130;
const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/** Left by exit, not by the signal, a run takes its processes and folders with it. @param onInterrupted says what is left. */
export async function interruptible<T>(run: () => Promise<T>, onInterrupted: () => void = () => {}): Promise<T> {
  const end = (): never => {
    onInterrupted();
    process.exit(EXIT_INTERRUPTED);
  };
  for (const signal of SIGNALS) process.once(signal, end);
  try {
    return await run();
  } finally {
    for (const signal of SIGNALS) process.off(signal, end);
  }
}

/** The run failed for a reason that its message explains; no stack is shown. */
export class RunFailed extends Error {
  override readonly name = "RunFailed";
}

/** Says on stderr what went wrong and returns the exit code. Commander has already said what it has to say. */
export function reportError(error: unknown, stderr: { write(text: string): unknown } = process.stderr): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return EXIT_OK;
    return EXIT_BAD_INPUT;
  }
  if (error instanceof ConfigError) {
    stderr.write(`${error.message}\n`);
    return EXIT_BAD_INPUT;
  }
  if (error instanceof ServingError) {
    stderr.write(`rubato: ${error.message}\n`);
    return error.code === "not-found" || error.code === "invalid-argument" ? EXIT_BAD_INPUT : EXIT_FAILED;
  }
  if (error instanceof RunFailed) {
    stderr.write(`rubato: ${error.message}\n`);
    return EXIT_FAILED;
  }
  stderr.write(`rubato: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return EXIT_FAILED;
}

/** A reader that closed the pipe early (`rubato ... | head`) has what it wanted: end quietly. */
export function endOnClosedPipe(stream: NodeJS.WriteStream): void {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(EXIT_OK);
    process.exit(reportError(new RunFailed(`the result cannot be written: ${error.message}`)));
  });
}
