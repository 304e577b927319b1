/**
 * Clients that cost as little as a client can, so that what they measure is the server: one request, encoded once, sent
 * again and again on kept connections; of the answer only status and length are looked at.
 */
import { connect, type Socket } from "node:net";
import { Client, credentials } from "@grpc/grpc-js";
import { ServingError } from "../../wire/serving-error.js";

export type AskDone = (error: Error | null) => void;

export interface Probe {
  /** Sends the request once more, whatever is under way. */
  ask(done: AskDone): void;
  close(): void;
}

/** Connections, or requests under way; more is a broken measurement. */
const UNDER_WAY_MAX = 4096;
export const INFER_METHOD = "/inference.GRPCInferenceService/ModelInfer";

/** HTTP/1.1 on raw sockets: one request at a time on each, a new one only when all are busy. */
export class HttpProbe implements Probe {
  private readonly idle: Connection[] = [];
  private readonly all: Connection[] = [];

  /** @param message the whole request, head and body. */
  constructor(
    private readonly port: number,
    private readonly message: Buffer,
  ) {}

  ask(done: AskDone): void {
    let connection = this.idle.pop();
    if (connection === undefined) {
      if (this.all.length >= UNDER_WAY_MAX) {
        done(new ServingError("unavailable", `more than ${UNDER_WAY_MAX} requests are under way`));
        return;
      }
      connection = new Connection(this.port, (free) => this.idle.push(free));
      this.all.push(connection);
    }
    connection.ask(this.message, done);
  }

  close(): void {
    for (const connection of this.all) connection.close();
  }
}

const HEAD_END = "\r\n\r\n";

class Connection {
  private readonly socket: Socket;
  private done: AskDone | null = null;
  private head: Buffer | null = null;
  /** Bytes of the answer that are still to come; -1: its head is. */
  private left = -1;

  constructor(
    port: number,
    private readonly release: (self: Connection) => void,
  ) {
    this.socket = connect({ port, host: "127.0.0.1", noDelay: true });
    this.socket.on("data", (chunk) => this.take(chunk));
    this.socket.on("error", (error) => this.end(error));
    this.socket.on("close", () => this.end(new ServingError("unavailable", "the server closed the connection")));
  }

  ask(message: Buffer, done: AskDone): void {
    this.done = done;
    this.socket.write(message);
  }

  close(): void {
    this.done = null;
    this.socket.destroy();
  }

  private take(chunk: Buffer): void {
    if (this.left < 0) {
      const bytes = this.head === null ? chunk : Buffer.concat([this.head, chunk]);
      const end = bytes.indexOf(HEAD_END);
      if (end < 0) {
        this.head = bytes;
        return;
      }
      this.head = null;
      const text = bytes.toString("latin1", 0, end);
      const length = /content-length: *(\d+)/i.exec(text);
      if (!text.startsWith("HTTP/1.1 200") || length === null) {
        this.end(new ServingError("unavailable", `the server answered '${bytes.toString("latin1", 0, 300)}'`));
        return;
      }
      this.left = Number(length[1]) - (bytes.length - end - HEAD_END.length);
    } else this.left -= chunk.length;
    if (this.left > 0) return;
    this.left = -1;
    const { done } = this;
    this.done = null;
    this.release(this);
    done?.(null);
  }

  private end(error: Error): void {
    const { done } = this;
    this.done = null;
    done?.(error);
  }
}

/** gRPC with messages encoded before and not decoded after. */
export class GrpcProbe implements Probe {
  private readonly client: Client;

  constructor(
    port: number,
    private readonly message: Buffer,
  ) {
    this.client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      "grpc.max_receive_message_length": -1,
      "grpc.max_send_message_length": -1,
    });
  }

  ask(done: AskDone): void {
    this.client.makeUnaryRequest(INFER_METHOD, same, same, this.message, (error) => done(error));
  }

  close(): void {
    this.client.close();
  }
}

const same = (bytes: Buffer): Buffer => bytes;
