/**
 * How much a door holds at once: requests and their bytes, from the receipt of the headers until the answer has left.
 *
 * The check comes before a body is read or parsed, so that a refusal stays cheap under any load.
 */
import { ServingError } from "../wire/serving-error.js";

export interface AdmissionLimits {
  /** Requests in flight at this door; default 8192. */
  readonly inFlightRequestsMax?: number;
  /** Bytes of requests and answers in flight at this door; default 1 GiB. One request is always let in. */
  readonly inFlightBytesMax?: number;
}

export class Admission {
  readonly requestsMax: number;
  readonly bytesMax: number;
  private requests = 0;
  private bytes = 0;

  constructor(limits: AdmissionLimits) {
    this.requestsMax = limits.inFlightRequestsMax ?? 8192;
    this.bytesMax = limits.inFlightBytesMax ?? 1024 ** 3;
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
        `requests in flight must be at most ${this.requestsMax}, got ${this.requests + 1}`,
        { reason: "in-flight-full", retryAfterS: 1 },
      );
    this.checkBytes(bytes, this.requests > 0);
    this.requests++;
    this.bytes += bytes;
  }

  /** More bytes of a request already let in (a body of unannounced length, or one that was compressed). */
  grow(bytes: number): void {
    this.checkBytes(bytes, this.requests > 1);
    this.bytes += bytes;
  }

  /**
   * Bytes of an answer on its way out. Never refused, since the work is done, but while slow readers hold them new
   * requests are.
   */
  hold(bytes: number): void {
    this.bytes += bytes;
  }

  leave(bytes: number): void {
    this.requests--;
    this.bytes -= bytes;
  }

  private checkBytes(bytes: number, hasOthers: boolean): void {
    if (hasOthers && this.bytes + bytes > this.bytesMax)
      throw new ServingError(
        "resource-exhausted",
        `bytes in flight must be at most ${this.bytesMax}, got ${this.bytes + bytes}`,
        { reason: "in-flight-bytes-full", retryAfterS: 1 },
      );
  }
}
