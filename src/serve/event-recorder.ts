import { closeSync, openSync, writeSync } from "node:fs";
import { encodeHeader, LOG_WIDTH, type LogHeader } from "../core/event-log.js";
import type { EventRecorder } from "./scheduler-loop.js";

const BUFFER_ROWS = 4096;

/**
 * Writes an event log to a file, in blocks. At its size limit it stops whole: a log with a gap could not be replayed,
 * and what it holds until then can.
 */
export class FileRecorder implements EventRecorder {
  private readonly file: number;
  private readonly buffer = new Float64Array(BUFFER_ROWS * LOG_WIDTH);
  private used = 0;
  private rowsLeft: number;
  private isOpen = true;

  /** @param bytesMax Of the whole file. @throws the file system's error. */
  constructor(path: string, header: LogHeader, bytesMax: number) {
    this.file = openSync(path, "w");
    const head = encodeHeader(header);
    writeSync(this.file, head);
    this.rowsLeft = Math.floor((bytesMax - head.byteLength) / (LOG_WIDTH * Float64Array.BYTES_PER_ELEMENT));
  }

  row(kind: number, at: number, group: number, a: number, b: number, c: number, d: number, e: number): void {
    if (this.rowsLeft <= 0) return;
    this.rowsLeft--;
    const { buffer } = this;
    const offset = this.used;
    buffer[offset] = kind;
    buffer[offset + 1] = at;
    buffer[offset + 2] = group;
    buffer[offset + 3] = a;
    buffer[offset + 4] = b;
    buffer[offset + 5] = c;
    buffer[offset + 6] = d;
    buffer[offset + 7] = e;
    this.used = offset + LOG_WIDTH;
    if (this.used === buffer.length || this.rowsLeft === 0) this.flush();
  }

  /** Writes what is buffered; called when the scheduler has nothing to do. */
  flush(): void {
    if (this.used === 0 || !this.isOpen) return;
    writeSync(this.file, new Uint8Array(this.buffer.buffer, 0, this.used * Float64Array.BYTES_PER_ELEMENT));
    this.used = 0;
  }

  close(): void {
    this.flush();
    if (this.isOpen) closeSync(this.file);
    this.isOpen = false;
  }
}
