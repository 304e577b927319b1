import pino, { type Logger } from "pino";
import { ServingError } from "../../wire/serving-error.js";

export type Log = Logger;

/** What a file or a caller says wrong is a sentence, and no place in this program: a stack is for the program's own faults. */
export function errorFields(error: unknown): unknown {
  if (!(error instanceof ServingError) || error.code !== "invalid-argument")
    return pino.stdSerializers.err(error as Error);
  return { type: error.name, code: error.code, message: error.message };
}

/** Structured lines on stderr; for people where `pretty`. Never a line per request at info. */
export async function createLog(level: string, pretty: boolean | "auto"): Promise<Log> {
  const isPretty = pretty === "auto" ? process.stderr.isTTY === true : pretty;
  if (!isPretty)
    return pino({ level, base: null, serializers: { err: errorFields } }, pino.destination({ fd: 2, sync: true }));
  const { default: prettyStream } = await import("pino-pretty");
  return pino(
    { level, base: null, serializers: { err: errorFields } },
    prettyStream({ destination: 2, sync: true, ignore: "pid,hostname" }),
  );
}

export const silentLog = (): Log => pino({ level: "silent" });
