/**
 * The HTTP/2 stream of one call, watched beneath grpc-js: it collects whole messages without asking anybody, keeps them
 * for as long as their sender likes, and writes without looking whether anyone reads.
 *
 * What a message holds is counted as its bytes come, in a place that ends with the stream at the latest: every way in
 * which a call can end (answered, cancelled, reset, out of time, connection lost) closes its stream. Moments are
 * milliseconds of `performance.now()`.
 */
import { constants, type ServerHttp2Stream } from "node:http2";
import { MessagePieces } from "../../wire/infer/message-pieces.js";
import { ServingError } from "../../wire/serving-error.js";
import type { Inflations } from "../http/inflation.js";
import { type Admission, Place } from "../requests/admission.js";

export interface InletRules {
  /** Of one message. */
  readonly bytesMax: number;
  /** One message, then the end; else as many as the client likes, each when it likes. */
  readonly isUnary: boolean;
  /** Where messages take their places; none for what is no inference. */
  readonly accounts: readonly Admission[];
  /** Time for a message to come, and for a client to take a piece of an answer. */
  readonly requestTimeoutMs: number;
  readonly writeTimeoutMs: number;
  readonly inflations: Inflations;
  /** Ends the call with this status. */
  readonly refuse: (error: ServingError) => void;
  /** A piece of an answer has left. */
  readonly onProgress: () => void;
  readonly onClose: () => void;
}

interface Arrival {
  readonly place: Place;
  /** Why there is no place for it. */
  readonly refusal: ServingError | null;
}

/** A compressed-flag and the length of the message. */
const PREFIX_BYTES = 5;
/** A message without a place, up to this size, is still read, so that it alone is refused and not its whole stream. */
const REFUSED_BYTES_MAX = 64 * 1024;
/** Answers are written in pieces of this size: a client that takes one in time is reading. */
const PIECE_BYTES = 256 * 1024;

/** A message as gRPC sends it: uncompressed, and its length. */
export function withPrefix(message: MessagePieces): MessagePieces {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(message.length, 1);
  return new MessagePieces([prefix, ...message.pieces]);
}

export class Inlet {
  private readonly places = new Set<Place>();
  /** Whole messages that nobody has taken yet. */
  private readonly arrived: Arrival[] = [];
  /** Those of them that grpc-js has still to unpack. */
  private readonly toInflate: Arrival[] = [];
  private coming: Arrival | null = null;
  private readonly prefix = Buffer.alloc(PREFIX_BYTES);
  private prefixBytes = 0;
  private remainingBytes = 0;
  /** Since when the client owes the rest of a message; null: it owes none. */
  private owesSince: number | null;
  private writing = 0;
  /** Of the client, in taking what is written. */
  private progressAt = 0;
  /** When it was first seen answered and still open. */
  private answeredAt: number | null = null;
  private isRefused = false;

  constructor(
    private readonly stream: ServerHttp2Stream,
    private readonly rules: InletRules,
    now: number,
  ) {
    this.owesSince = rules.isUnary ? now : null;
    // Before grpc-js's own listener, and without starting the flow as `on` would.
    stream.prependListener("data", (data: Buffer) => this.onData(data));
    stream.once("end", () => {
      this.owesSince = null;
    });
    stream.once("close", () => {
      for (const place of this.places) place.end();
      rules.onClose();
    });
    this.watchWrites();
  }

  /** The place of the next message that has arrived. @throws ServingError there is none for it. */
  take(): Place {
    const { place, refusal } = this.arrived.shift()!;
    if (refusal !== null) throw refusal;
    return place;
  }

  /** Undoes the compression of the next message that has come, in its place. */
  inflate(message: Buffer, encoding: string): Promise<Buffer> | Buffer {
    const arrival = this.toInflate.shift();
    const body = message.subarray(PREFIX_BYTES);
    // Without a place it is refused by whom it reaches.
    if (encoding === "identity" || arrival === undefined || arrival.refusal !== null) return body;
    return new Promise((resolve) => {
      this.rules.inflations.undo(body, encoding, this.rules.bytesMax, arrival.place, (error, plain) => {
        if (error === null) resolve(plain!);
        else this.refuse(error);
      });
    });
  }

  /** @returns false: the client reads nothing. */
  check(now: number): boolean {
    const { requestTimeoutMs, writeTimeoutMs } = this.rules;
    // A message that waits for requests before it to be answered is not late.
    if (this.owesSince !== null && this.stream.isPaused()) this.owesSince = now;
    if (this.owesSince !== null && now - this.owesSince >= requestTimeoutMs)
      this.refuse(
        new ServingError("deadline-exceeded", `a message must arrive within ${requestTimeoutMs} ms of its first byte`, {
          reason: "message-timeout",
        }),
      );
    if (this.stream.writableEnded && this.writing === 0) this.finish(now);
    const since = this.writing > 0 ? this.progressAt : this.answeredAt;
    return since === null || now - since < writeTimeoutMs;
  }

  /** Answered: a client that goes on sending, or does not read that it was, would keep the stream open. */
  private finish(now: number): void {
    if (this.answeredAt === null) this.answeredAt = now;
    else if (!this.stream.closed) this.stream.close(constants.NGHTTP2_NO_ERROR);
  }

  destroy(): void {
    this.stream.destroy();
  }

  private onData(data: Buffer): void {
    try {
      for (let at = 0; at < data.byteLength && !this.isRefused; ) at += this.read(data, at);
    } catch (error) {
      this.refuse(ServingError.from(error));
    }
  }

  /** @returns how many bytes it took. */
  private read(data: Buffer, at: number): number {
    let taken: number;
    if (this.prefixBytes < PREFIX_BYTES) {
      if (this.prefixBytes === 0) this.begin();
      taken = data.copy(this.prefix, this.prefixBytes, at, at + PREFIX_BYTES - this.prefixBytes);
      this.prefixBytes += taken;
      if (this.prefixBytes === PREFIX_BYTES) this.announce(this.prefix.readUInt32BE(1));
    } else {
      taken = Math.min(this.remainingBytes, data.byteLength - at);
      this.coming!.place.grow(taken);
      this.remainingBytes -= taken;
    }
    if (this.prefixBytes === PREFIX_BYTES && this.remainingBytes === 0 && !this.isRefused) this.complete();
    return taken;
  }

  private begin(): void {
    const place = new Place(this.rules.accounts);
    let refusal: ServingError | null = null;
    try {
      place.enter();
      this.places.add(place);
      place.onEnd(() => this.places.delete(place));
    } catch (error) {
      refusal = ServingError.from(error);
    }
    this.coming = { place, refusal };
    this.owesSince ??= performance.now();
  }

  private announce(bytes: number): void {
    const { bytesMax, isUnary } = this.rules;
    if (bytes > bytesMax)
      throw new ServingError("payload-too-large", `a message must have at most ${bytesMax} bytes, got ${bytes}`, {
        reason: "body-too-large",
      });
    const { refusal } = this.coming!;
    if (refusal !== null && (isUnary || bytes > REFUSED_BYTES_MAX)) throw refusal;
    this.remainingBytes = bytes;
  }

  private complete(): void {
    this.arrived.push(this.coming!);
    this.toInflate.push(this.coming!);
    this.coming = null;
    this.prefixBytes = 0;
    if (!this.rules.isUnary) this.owesSince = null;
  }

  /** The bytes stay counted until the stream is closed, which is when they are gone. */
  private refuse(error: ServingError): void {
    if (this.isRefused) return;
    this.isRefused = true;
    this.owesSince = null;
    const hasAnswered = this.stream.headersSent;
    this.rules.refuse(error);
    // A status alone is queued by now, and the end of the stream after it; trailers come later, and the end by `check`.
    if (!hasAnswered && !this.stream.closed) this.stream.close(constants.NGHTTP2_NO_ERROR);
  }

  private watchWrites(): void {
    const { stream } = this;
    const write = stream.write.bind(stream) as (chunk: Buffer, done: (error?: Error | null) => void) => boolean;
    const leave = (done?: (error?: Error | null) => void) => (error?: Error | null) => {
      this.writing--;
      this.progressAt = performance.now();
      this.rules.onProgress();
      done?.(error);
    };
    // grpc-js hands over a whole answer; it never looks at the result.
    stream.write = ((chunk: Buffer | MessagePieces, done: (error?: Error | null) => void): boolean => {
      if (this.writing === 0) this.progressAt = performance.now();
      const message = chunk instanceof MessagePieces ? chunk : new MessagePieces([chunk]);
      let leftBytes = message.length;
      let goOn = true;
      for (const portion of message.portions(PIECE_BYTES)) {
        leftBytes -= portion.byteLength;
        this.writing++;
        goOn = write(portion, leave(leftBytes === 0 ? done : undefined));
      }
      return goOn;
    }) as typeof stream.write;
  }
}
