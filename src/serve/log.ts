import pino, { type Logger } from "pino";

export type Log = Logger;

/** Structured lines on stderr; for people where `pretty`. Never a line per request at info. */
export async function createLog(level: string, pretty: boolean | "auto"): Promise<Log> {
  const isPretty = pretty === "auto" ? process.stderr.isTTY === true : pretty;
  if (!isPretty) return pino({ level, base: null }, pino.destination({ fd: 2, sync: true }));
  const { default: prettyStream } = await import("pino-pretty");
  return pino({ level, base: null }, prettyStream({ destination: 2, sync: true, ignore: "pid,hostname" }));
}

export const silentLog = (): Log => pino({ level: "silent" });
