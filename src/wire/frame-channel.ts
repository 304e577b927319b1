/** One end of a framed stream over a socket. An error of the socket or of the codec closes it, with a reason. */
import { type OnReadOpts, Socket, type SocketConstructorOpts } from "node:net";
import { encodeFrame, FRAME_LIMITS, type Frame, type FrameLimits, FrameReader } from "./frames.js";
import { ServingError } from "./serving-error.js";

export interface FrameHandlers {
  onFrame(frame: Frame): void;
  /** Once, however the stream ended; `error` is null when the peer closed between frames. */
  onClose(error: Error | null): void;
}

/** Reads go straight into the memory of a large payload, else into this much memory that is used again and again. */
const SCRATCH_BYTES = 64 * 1024;

export class FrameChannel {
  private closed = false;
  private failure: Error | null = null;

  private constructor(
    readonly socket: Socket,
    private readonly handlers: FrameHandlers,
    private readonly limits: FrameLimits,
  ) {
    socket.on("error", (error) => {
      this.failure ??= error;
    });
    socket.on("close", () => this.close(this.failure));
  }

  /**
   * Over a socket that exists already and was not read yet, such as a stdio pipe of a child process. Its stream goes to a
   * socket of the channel's own, as only a socket's maker says where it reads to; it is closed when that is.
   */
  static over(socket: Socket, handlers: FrameHandlers, limits: FrameLimits = FRAME_LIMITS): FrameChannel {
    const given = socket as unknown as { _handle: object | null };
    const handle = given._handle;
    given._handle = null;
    const channel = FrameChannel.on({ handle } as SocketConstructorOpts, handlers, limits);
    channel.socket.once("close", () => socket.destroy());
    return channel;
  }

  /** Over an inherited file descriptor. */
  static onDescriptor(fd: number, handlers: FrameHandlers, limits: FrameLimits = FRAME_LIMITS): FrameChannel {
    return FrameChannel.on({ fd, readable: true, writable: true }, handlers, limits);
  }

  /** Payloads that span reads are received without a copy. */
  private static on(stream: SocketConstructorOpts, handlers: FrameHandlers, limits: FrameLimits): FrameChannel {
    const reader = new FrameReader((frame) => handlers.onFrame(frame), limits);
    const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
    let direct: Buffer | null = null;
    const next = (): Buffer => {
      direct = reader.space();
      return direct ?? scratch;
    };
    const callback = (count: number): boolean => {
      channel.guard(() => (direct === null ? reader.push(scratch.subarray(0, count)) : reader.filled(count)));
      return true;
    };
    // The constructor takes `onread` as connect() does; the type package lists it for the latter only.
    const options: SocketConstructorOpts & { onread: OnReadOpts } = {
      ...stream,
      onread: { buffer: next as unknown as Uint8Array, callback },
    };
    const socket = new Socket(options);
    const channel: FrameChannel = new FrameChannel(socket, handlers, limits);
    socket.on("end", () => channel.ended(reader));
    // Without a "data" listener a socket stays paused, `onread` or not.
    socket.resume();
    return channel;
  }

  /** Bytes handed to the socket that the kernel has not taken yet. */
  get pendingBytes(): number {
    return this.socket.writableLength;
  }

  /**
   * Sends one frame; large parts by reference. False when the stream is closed: the close handler has the reason.
   *
   * @throws ServingError payload-too-large before anything is written.
   */
  send(type: number, header: Uint8Array, parts: readonly Uint8Array[] = []): boolean {
    const pieces = encodeFrame(type, header, parts, this.limits);
    if (this.closed || this.socket.destroyed || !this.socket.writable) return false;
    if (pieces.length === 1) this.socket.write(pieces[0]!);
    else {
      this.socket.cork();
      for (const piece of pieces) this.socket.write(piece);
      this.socket.uncork();
    }
    return true;
  }

  /** Resolves when the kernel has everything that was sent before. */
  flushed(): Promise<void> {
    return new Promise((resolve) => {
      if (this.closed || !this.socket.writable) resolve();
      else this.socket.write("", () => resolve());
    });
  }

  destroy(): void {
    this.socket.destroy();
  }

  private ended(reader: FrameReader): void {
    if (!reader.idle) this.failure ??= new Error("stream ended inside a frame");
    this.socket.destroy();
  }

  private guard(action: () => void): void {
    try {
      action();
    } catch (error) {
      // What the codec refuses closes the stream; anything else is a bug of whoever handles frames and ends the process.
      if (!(error instanceof ServingError)) throw error;
      this.failure ??= error;
      this.socket.destroy();
    }
  }

  private close(error: Error | null): void {
    if (this.closed) return;
    this.closed = true;
    this.handlers.onClose(error);
  }
}
