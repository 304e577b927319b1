/**
 * How much a door holds at once: requests and their bytes, from the receipt of the headers until the answer has left.
 *
 * The check comes before a body is read or parsed, so that a refusal stays cheap under any load.
 */
import { invariant } from "../../core/invariant.js";
import { ServingError } from "../../wire/serving-error.js";

export interface AdmissionLimits {
  /** Requests in flight at this door; default 8192. */
  readonly inFlightRequestsMax?: number;
  /** Bytes of requests and answers in flight at this door; default 1 GiB. One request is always let in. */
  readonly inFlightBytesMax?: number;
}

export class Admission {
  readonly requestsMax: number;
  readonly bytesMax: number;
  /** How refusals name it: "", or " of one address", " of one connection". */
  private readonly whose: string;
  private readonly reasons: { readonly requests: string; readonly bytes: string };
  private requests = 0;
  private bytes = 0;

  /** @param share of whom, where it is a part of a door that is watched: a client's address, a connection. */
  constructor(limits: AdmissionLimits, share?: "address" | "connection") {
    this.requestsMax = limits.inFlightRequestsMax ?? 8192;
    this.bytesMax = limits.inFlightBytesMax ?? 1024 ** 3;
    this.whose = share === undefined ? "" : ` of one ${share}`;
    this.reasons =
      share === undefined
        ? { requests: "in-flight-full", bytes: "in-flight-bytes-full" }
        : { requests: `${share}-full`, bytes: `${share}-full` };
  }

  get inFlight(): number {
    return this.requests;
  }

  get inFlightBytes(): number {
    return this.bytes;
  }

  /** Takes a place, or throws ServingError resource-exhausted with reason in-flight-full or in-flight-bytes-full. */
  enter(bytes: number): void {
    if (this.requests >= this.requestsMax)
      throw new ServingError(
        "resource-exhausted",
        `requests in flight${this.whose} must be at most ${this.requestsMax}, got ${this.requests + 1}`,
        { reason: this.reasons.requests, retryAfterS: 1 },
      );
    this.checkBytes(bytes, this.requests > 0);
    this.requests++;
    this.bytes += bytes;
  }

  /** More bytes of a request already let in (its body as it comes, and what that grows to). */
  grow(bytes: number): void {
    this.checkBytes(bytes, this.requests > 1);
    this.bytes += bytes;
  }

  /**
   * Bytes of an answer on its way out. Never refused, since the work is done, but while slow readers hold them new
   * requests are. Negative: bytes that are held no longer.
   */
  hold(bytes: number): void {
    this.bytes += bytes;
  }

  leave(bytes: number): void {
    this.requests--;
    this.bytes -= bytes;
    invariant(this.requests >= 0 && this.bytes >= 0, `${this.requests} requests and ${this.bytes} bytes are held`);
  }

  private checkBytes(bytes: number, hasOthers: boolean): void {
    if (hasOthers && this.bytes + bytes > this.bytesMax)
      throw new ServingError(
        "resource-exhausted",
        `bytes in flight${this.whose} must be at most ${this.bytesMax}, got ${this.bytes + bytes}`,
        { reason: this.reasons.bytes, retryAfterS: 1 },
      );
  }
}

/**
 * What one request has taken: its place and its bytes at the door, and whatever else must be undone when it ends. Each
 * way out leads through `end`, which gives all of it back, once; who ends first does not matter.
 *
 * open (may grow) -> ended (grows no more: what comes too late finds nothing to take).
 */
export class Place {
  private held = 0;
  private taken = 0;
  private readonly undo: (() => void)[] = [];

  /** @param accounts the door's, and of those that it is a part of. */
  constructor(private readonly accounts: readonly Admission[]) {}

  private ended = false;
  get isEnded(): boolean {
    return this.ended;
  }

  /** @throws ServingError the first account's refusal; nothing is taken then. */
  enter(): void {
    try {
      for (const account of this.accounts) {
        account.enter(0);
        this.taken++;
      }
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** @throws ServingError the first account's refusal; nothing more is taken then. */
  grow(bytes: number): void {
    if (this.ended) return;
    let grown = 0;
    try {
      for (; grown < this.taken; grown++) this.accounts[grown]!.grow(bytes);
    } catch (error) {
      while (grown > 0) this.accounts[--grown]!.hold(-bytes);
      throw error;
    }
    this.held += bytes;
  }

  /** As `grow`, and never refused; negative: no longer held. */
  hold(bytes: number): void {
    if (this.ended) return;
    for (let index = 0; index < this.taken; index++) this.accounts[index]!.hold(bytes);
    this.held += bytes;
  }

  /** Calls `undo` when the request ends; at once if it has. */
  onEnd(undo: () => void): void {
    if (this.ended) undo();
    else this.undo.push(undo);
  }

  end(): void {
    if (this.ended) return;
    this.ended = true;
    for (let index = 0; index < this.taken; index++) this.accounts[index]!.leave(this.held);
    this.taken = 0;
    for (const undo of this.undo) undo();
    this.undo.length = 0;
  }
}
