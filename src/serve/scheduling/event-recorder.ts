import { closeSync, openSync, writeSync } from "node:fs";
import { encodeHeader, type LogGroup, type LogHeader } from "../../core/event-log.js";
import { LOG_WIDTH, putRow, type RowSink } from "../../core/event-rows.js";
import type { LiveSchedulerOptions } from "../live-scheduler.js";

const BUFFER_ROWS = 4096;

/**
 * Writes an event log to a file, in blocks. At its size limit it stops whole: a log with a gap could not be replayed,
 * and what it holds until then can.
 */
export class FileRecorder implements RowSink {
  private readonly file: number;
  private readonly buffer = new Float64Array(BUFFER_ROWS * LOG_WIDTH);
  private used = 0;
  private rowsLeft: number;
  private isOpen = true;
  private readonly path: string;
  private readonly onEnd: (why: string) => void;

  /**
   * @param bytesMax Of the whole file. @param onEnd told once when recording ends before it is closed.
   * @throws the file system's error.
   */
  constructor(path: string, header: LogHeader, bytesMax: number, onEnd: (why: string) => void) {
    this.path = path;
    this.onEnd = onEnd;
    this.file = openSync(path, "w");
    const head = encodeHeader(header);
    writeAll(this.file, head);
    this.rowsLeft = Math.floor((bytesMax - head.byteLength) / (LOG_WIDTH * Float64Array.BYTES_PER_ELEMENT));
  }

  row(kind: number, at: number, group: number, a: number, b: number, c: number, d: number, e: number): void {
    if (this.rowsLeft <= 0) return;
    this.rowsLeft--;
    const { buffer } = this;
    const offset = this.used;
    putRow(buffer, offset, kind, group, a, b, c, d, e);
    buffer[offset + 1] = at;
    this.used = offset + LOG_WIDTH;
    if (this.used === buffer.length || this.rowsLeft === 0) this.flush();
    if (this.rowsLeft === 0 && this.isOpen) this.end("it has event_log.max_bytes");
  }

  /** Writes what is buffered; called when the scheduler has nothing to do. */
  flush(): void {
    if (this.used === 0 || !this.isOpen) return;
    const bytes = new Uint8Array(this.buffer.buffer, 0, this.used * Float64Array.BYTES_PER_ELEMENT);
    this.used = 0;
    try {
      writeAll(this.file, bytes);
    } catch (error) {
      // A full disk ends the log, not the server. Readers take a last row that is cut for the end.
      this.end((error as Error).message);
    }
  }

  private end(why: string): void {
    this.rowsLeft = 0;
    this.close();
    this.onEnd(`recording of events into ${this.path} ended: ${why}`);
  }

  close(): void {
    this.flush();
    if (this.isOpen) closeSync(this.file);
    this.isOpen = false;
  }
}

/** A disk that is nearly full takes a part. */
function writeAll(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.byteLength; ) at += writeSync(file, bytes, at);
}

/** @param onEnd told once when recording ends early. @returns null: nothing is to be recorded. @throws the file system's error. */
export function recorderOf(
  eventLog: LiveSchedulerOptions["eventLog"],
  groups: readonly LogGroup[],
  onEnd: (why: string) => void,
): FileRecorder | null {
  if (eventLog === null) return null;
  return new FileRecorder(eventLog.file, { format: "rubato-events-2", groups }, eventLog.bytesMax, onEnd);
}
