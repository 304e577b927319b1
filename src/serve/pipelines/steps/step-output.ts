import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { timeUs } from "../../../core/time.js";
import type { Alarm, Clock } from "../../../wire/clock/clock.js";
import type { Log } from "../../observation/log.js";
import { LineSplitter } from "../../workers/line-log.js";

/** In a second, of both streams. */
const LINES_MAX = 100;
const WINDOW_US = 1_000_000;
const NEWLINE = 10;

/**
 * What the steps of one pipeline print, in the server's log: at most so many lines a second. The rest is thrown away unread, and a line says how many
 * bytes that was: who prints in a loop must neither fill the log nor take the server's time, and a pipe that is not read would stop the steps.
 */
export class StepOutput {
  private lines = 0;
  private leftOutBytes = 0;
  private windowEndsAt = Number.NEGATIVE_INFINITY;
  private readonly alarm: Alarm;

  constructor(
    private readonly pipeline: string,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {
    this.alarm = clock.alarm(() => this.look()).unref();
  }

  /** Reads it to its end. */
  follow(stream: Readable, level: "info" | "warn"): void {
    let decoder = new StringDecoder("utf8");
    let isCut = false;
    const splitter = new LineSplitter((line) => this.line(level, line));
    stream.on("data", (chunk: Buffer) => {
      this.look();
      const from = this.lines >= LINES_MAX ? chunk.length : isCut ? endOfLine(chunk) : 0;
      if (from > 0) {
        // What has begun of a line went with it.
        splitter.end();
        decoder = new StringDecoder("utf8");
        isCut = from === chunk.length;
        this.leaveOut(from);
      }
      splitter.push(decoder.write(chunk.subarray(from)));
    });
    stream.on("end", () => splitter.end());
    stream.on("error", () => {});
  }

  /** Says what is unsaid. */
  close(): void {
    this.alarm.clear();
    this.sayLeftOut();
  }

  private line(level: "info" | "warn", line: string): void {
    const { pipeline } = this;
    if (this.lines >= LINES_MAX) this.leaveOut(Buffer.byteLength(line) + 1);
    else this.log[level]({ pipeline }, line);
    this.lines++;
  }

  private leaveOut(bytes: number): void {
    if (this.leftOutBytes === 0) this.alarm.set(timeUs(this.windowEndsAt));
    this.leftOutBytes += bytes;
  }

  private look(): void {
    const now = this.clock.now();
    if (now < this.windowEndsAt) return;
    this.sayLeftOut();
    this.lines = 0;
    this.windowEndsAt = now + WINDOW_US;
  }

  private sayLeftOut(): void {
    const { leftOutBytes, pipeline } = this;
    this.leftOutBytes = 0;
    if (leftOutBytes > 0)
      this.log.warn(
        { pipeline, leftOutBytes },
        `steps printed more than ${LINES_MAX} lines in a second: ${leftOutBytes} bytes were left out`,
      );
  }
}

/** Where the next line begins; the chunk's length: not in it. */
function endOfLine(chunk: Buffer): number {
  const at = chunk.indexOf(NEWLINE);
  return at < 0 ? chunk.length : at + 1;
}
