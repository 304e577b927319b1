/**
 * The connections of the gRPC door and the calls that are open on each. Once a second it looks who keeps a call open
 * without sending or reading: that call ends, and the connection too if nothing of it moves.
 */
import {
  constants,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Server, ServerInterceptingCallInterface } from "@grpc/grpc-js";
import { MessagePieces } from "../../wire/infer/message-pieces.js";
import type { ServingError } from "../../wire/serving-error.js";
import { Inflations } from "../http/inflation.js";
import { Admission } from "../requests/admission.js";
import { Inlet, withPrefix } from "./inlet.js";
import { MessageGatherer } from "./message-gatherer.js";
import { boundTimeout } from "./timeout-header.js";

export interface ConnectionLimits {
  /** Open connections; default 16384. Beyond it a connection is closed as it opens. */
  readonly connectionsMax?: number;
  /** Requests in flight on one connection; default a quarter of the door's, at least 256. */
  readonly connectionInFlightMax?: number;
  /** Bytes of its requests and answers; default a quarter of the door's, at least two messages of the largest size. */
  readonly connectionBytesMax?: number;
  /** Milliseconds for a whole message to arrive, from its first byte; default 60 s. */
  readonly requestTimeoutMs?: number;
  /** Milliseconds a client may take nothing of its answer; default 30 s. */
  readonly writeTimeoutMs?: number;
}

/** What a method lets in. */
export interface MethodRules {
  readonly bytesMax: number;
  readonly isUnary: boolean;
  readonly isInference: boolean;
}

/** A message with its prefix, and "identity" where that says so. */
type Inflater = (message: Buffer, encoding: string) => Promise<Buffer> | Buffer;
/** What is written to the stream, of which grpc-js itself reads the length only. */
type Serializer = (message: unknown) => Buffer | MessagePieces;

interface Connection {
  readonly admission: Admission;
  /** When a client last took a piece of any answer. */
  progressAt: number;
}

export class Connections {
  private readonly connections = new WeakMap<ServerHttp2Session, Connection>();
  private readonly inflations = new Inflations();
  private readonly inlets = new Map<ServerHttp2Stream, Inlet>();
  private readonly requestsOfOneMax: number;
  private readonly bytesOfOneMax: number;
  private readonly requestTimeoutMs: number;
  private readonly writeTimeoutMs: number;
  private readonly sweep: NodeJS.Timeout;

  constructor(
    private readonly door: Admission,
    private readonly limits: ConnectionLimits,
    private readonly messageBytesMax: number,
  ) {
    this.requestsOfOneMax = limits.connectionInFlightMax ?? Math.max(256, Math.floor(door.requestsMax / 4));
    this.bytesOfOneMax = limits.connectionBytesMax ?? Math.max(2 * messageBytesMax, Math.floor(door.bytesMax / 4));
    this.requestTimeoutMs = limits.requestTimeoutMs ?? 60_000;
    this.writeTimeoutMs = limits.writeTimeoutMs ?? 30_000;
    const shortest = Math.min(this.requestTimeoutMs, this.writeTimeoutMs);
    this.sweep = setInterval(() => this.look(), Math.min(1000, Math.max(10, shortest / 10)));
    this.sweep.unref();
  }

  /** Once the server is bound. grpc-js has no option for either, nor for what `open` does: its HTTP/2 is its own (1.14). */
  attach(server: Server): void {
    const { http2Servers } = server as unknown as { http2Servers: Map<Http2Server, unknown> };
    for (const http2Server of http2Servers.keys()) {
      (http2Server as unknown as { maxConnections: number }).maxConnections = this.limits.connectionsMax ?? 16_384;
      http2Server.prependListener("stream", (_: ServerHttp2Stream, headers: IncomingHttpHeaders) =>
        boundTimeout(headers),
      );
      // After grpc-js's own listener: a stream without a call has been refused, and what it still sends is of no use.
      http2Server.on("stream", (stream: ServerHttp2Stream) => {
        if (!this.inlets.has(stream) && !stream.closed) stream.close(constants.NGHTTP2_NO_ERROR);
      });
    }
  }

  /** A call has come. @param refuse ends it with a status. */
  open(call: ServerInterceptingCallInterface, rules: MethodRules, refuse: (error: ServingError) => void): Inlet {
    const { stream } = call as unknown as { stream: ServerHttp2Stream };
    const connection = this.connectionOf(stream.session as ServerHttp2Session);
    const inlet = new Inlet(
      stream,
      {
        bytesMax: rules.bytesMax,
        isUnary: rules.isUnary,
        accounts: rules.isInference ? [this.door, connection.admission] : [],
        requestTimeoutMs: this.requestTimeoutMs,
        writeTimeoutMs: this.writeTimeoutMs,
        inflations: this.inflations,
        refuse,
        onProgress: () => {
          connection.progressAt = performance.now();
        },
        onClose: () => this.inlets.delete(stream),
      },
      performance.now(),
    );
    // grpc-js would inflate to the limit of a message before anybody counts it.
    const patched = call as unknown as {
      decoder: MessageGatherer;
      decompressMessage: Inflater;
      serializeMessage: Serializer;
    };
    patched.decoder = new MessageGatherer(this.messageBytesMax);
    patched.decompressMessage = (message, encoding) => inlet.inflate(message, encoding);
    // It would copy a whole answer to put its prefix before it.
    const serialize = patched.serializeMessage.bind(call);
    patched.serializeMessage = (message) =>
      message instanceof MessagePieces ? withPrefix(message) : serialize(message);
    this.inlets.set(stream, inlet);
    return inlet;
  }

  close(): void {
    clearInterval(this.sweep);
  }

  private connectionOf(session: ServerHttp2Session): Connection {
    let connection = this.connections.get(session);
    if (connection === undefined) {
      const limits = { inFlightRequestsMax: this.requestsOfOneMax, inFlightBytesMax: this.bytesOfOneMax };
      connection = { admission: new Admission(limits, "connection"), progressAt: performance.now() };
      this.connections.set(session, connection);
    }
    return connection;
  }

  private look(): void {
    const now = performance.now();
    for (const [stream, inlet] of this.inlets) {
      if (inlet.check(now)) continue;
      const { session } = stream;
      if (
        session !== undefined &&
        now - this.connectionOf(session as ServerHttp2Session).progressAt >= this.writeTimeoutMs
      )
        session.destroy();
      inlet.destroy();
    }
  }
}
