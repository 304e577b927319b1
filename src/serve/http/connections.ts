/**
 * The connections of the HTTP door, each with the requests that are open on it.
 *
 * A request ends when its answer has left, or when its connection is gone: the answer to a request pipelined behind
 * another has no "close" of its own before its turn, which never comes then. So each connection ends what is open on it.
 */
import type { Server, ServerResponse } from "node:http";
import { BlockList, isIPv6, type Socket } from "node:net";
import { Admission, Place } from "../requests/admission.js";

export interface ConnectionLimits {
  /** Open connections; default 16384. Beyond it a connection is closed as it opens. */
  readonly connectionsMax?: number;
  /** Requests in flight on one connection (pipelined, or sent before their turn); default 256. */
  readonly connectionInFlightMax?: number;
  /** Part of the door's places, bytes and connections that one remote address may hold; default 0.5. */
  readonly addressShareMax?: number;
  /** Addresses and networks that speak for many clients, and are not held to it; default the machine itself. */
  readonly proxies?: readonly string[];
  /** Milliseconds a client may take no byte of its answer; default 30 s. */
  readonly writeTimeoutMs?: number;
}

export const PROXIES_DEFAULT: readonly string[] = ["127.0.0.0/8", "::1"];

/** A connection that was told why it ends has this long to read it. */
const LINGER_MS = 1000;

/** What one remote address holds. */
interface Address {
  readonly admission: Admission;
  connections: number;
}

class Connection {
  readonly places = new Set<Place>();
  /** What the socket held back when last looked at, and since when that has not changed. */
  private pendingBytes = 0;
  private passedBytes = 0;
  private stalledAt = 0;

  constructor(
    readonly socket: Socket,
    readonly admission: Admission,
    readonly address: Address | null,
  ) {}

  endAll(): void {
    for (const place of this.places) place.end();
  }

  /** @param now milliseconds. @returns for how long bytes have waited for the client without one of them being taken. */
  stalledMs(now: number): number {
    const pending = this.socket.writableLength;
    const passed = this.socket.bytesWritten;
    if (pending === 0 || pending !== this.pendingBytes || passed !== this.passedBytes) this.stalledAt = now;
    this.pendingBytes = pending;
    this.passedBytes = passed;
    return now - this.stalledAt;
  }
}

export class Connections {
  private readonly open = new Map<Socket, Connection>();
  private readonly addresses = new Map<string, Address>();
  private readonly proxies: BlockList;
  private readonly connectionsOfAddressMax: number;
  private readonly writeTimeoutMs: number;
  private readonly sweep: NodeJS.Timeout;

  constructor(
    server: Server,
    private readonly door: Admission,
    private readonly limits: ConnectionLimits,
    private readonly bodyBytesMax: number,
  ) {
    const connectionsMax = limits.connectionsMax ?? 16_384;
    server.maxConnections = connectionsMax;
    this.connectionsOfAddressMax = this.share(connectionsMax);
    this.proxies = networks(limits.proxies ?? PROXIES_DEFAULT);
    this.writeTimeoutMs = limits.writeTimeoutMs ?? 30_000;
    server.on("connection", (socket: Socket) => this.add(socket));
    // One look at all of them instead of a timer for each answer; Node's own socket timeout starts anew when a write
    // that waits has made progress since it was issued, and so comes up to twice as late.
    this.sweep = setInterval(() => this.cutStalled(), Math.min(1000, Math.max(10, this.writeTimeoutMs / 10)));
    this.sweep.unref();
  }

  /** A request has come. Its place is not entered yet; it ends with the answer or with the connection. */
  begin(response: ServerResponse, socket: Socket, accounts: "inference" | Admission): Place {
    const connection = this.open.get(socket);
    const place = new Place(
      accounts !== "inference"
        ? [accounts]
        : connection === undefined || connection.address === null
          ? [this.door, ...(connection === undefined ? [] : [connection.admission])]
          : [this.door, connection.admission, connection.address.admission],
    );
    // A connection that is gone (it may be while a request's head is still read) ends it at once.
    if (connection === undefined) {
      place.end();
      return place;
    }
    connection.places.add(place);
    place.onEnd(() => connection.places.delete(place));
    response.once("close", () => place.end());
    return place;
  }

  /**
   * Ends a connection that sent no HTTP, or not in time: what is open on it ends now, and the client is told, if the
   * text would not stand where the answer to an earlier request is due.
   */
  refuse(socket: Socket, text: string): void {
    const connection = this.open.get(socket);
    const isAnswering = (connection?.places.size ?? 0) > 1 || socket.writableLength > 0;
    connection?.endAll();
    if (!socket.writable || isAnswering) {
      socket.destroy();
      return;
    }
    socket.end(text);
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  }

  close(): void {
    clearInterval(this.sweep);
  }

  private add(socket: Socket): void {
    const address = this.addressOf(socket);
    if (address !== null && address.connections >= this.connectionsOfAddressMax) {
      socket.destroy();
      return;
    }
    const { door, limits, bodyBytesMax } = this;
    const admission = new Admission(
      {
        inFlightRequestsMax: limits.connectionInFlightMax ?? 256,
        // One body that is served and one that comes.
        inFlightBytesMax: Math.min(door.bytesMax, 2 * bodyBytesMax),
      },
      "connection",
    );
    const connection = new Connection(socket, admission, address);
    this.open.set(socket, connection);
    if (address !== null) address.connections++;
    socket.once("close", () => {
      this.open.delete(socket);
      connection.endAll();
      if (address !== null && --address.connections === 0) this.addresses.delete(clientOf(socket.remoteAddress!));
    });
  }

  /** Null for proxies, and for a client that has gone already. */
  private addressOf(socket: Socket): Address | null {
    const { remoteAddress } = socket;
    if (remoteAddress === undefined) return null;
    if (this.proxies.check(remoteAddress, isIPv6(remoteAddress) ? "ipv6" : "ipv4")) return null;
    const client = clientOf(remoteAddress);
    let address = this.addresses.get(client);
    if (address === undefined) {
      const { requestsMax, bytesMax } = this.door;
      const limits = { inFlightRequestsMax: this.share(requestsMax), inFlightBytesMax: this.share(bytesMax) };
      address = { admission: new Admission(limits, "address"), connections: 0 };
      this.addresses.set(client, address);
    }
    return address;
  }

  private share(whole: number): number {
    return Math.max(1, Math.floor(whole * (this.limits.addressShareMax ?? 0.5)));
  }

  private cutStalled(): void {
    const now = performance.now();
    // Reset: after a mere close the kernel would go on holding what the client does not take.
    for (const connection of this.open.values())
      if (connection.stalledMs(now) >= this.writeTimeoutMs) connection.socket.resetAndDestroy();
  }
}

function networks(entries: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of entries) {
    const [address, bits] = entry.split("/") as [string, string | undefined];
    const family = isIPv6(address) ? "ipv6" : "ipv4";
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

/** Of IPv6 the first 64 bits: the rest is the client's own to choose. */
export function clientOf(address: string): string {
  if (!isIPv6(address) || address.startsWith("::ffff:")) return address.replace("::ffff:", "");
  const [head, tail] = address.split("::") as [string, string | undefined];
  const groups = head === "" ? [] : head.split(":");
  if (tail !== undefined) {
    const after = tail === "" ? [] : tail.split(":");
    while (groups.length + after.length < 8) groups.push("0");
    groups.push(...after);
  }
  return `${groups.slice(0, 4).join(":")}::/64`;
}
