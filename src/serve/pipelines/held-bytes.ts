/**
 * Bytes of a pipeline's requests: their inputs, and the tensors between modules. What a request will hold is not known when
 * it comes, so it is charged with what requests held lately, and refused at the entrance where that does not fit; inside
 * nothing is refused any more.
 */
export class HeldBytes {
  private readonly max: number;
  private charged = 0;
  private holders = 0;
  /** What requests come to hold beyond their inputs: the most, forgotten by an eighth with each that holds less. */
  private usual = 0;

  constructor(max: number) {
    this.max = max;
  }

  get bytes(): number {
    return this.charged;
  }

  /** What the gate would hold with one request more. */
  with(bytes: number): number {
    return this.charged + bytes + this.usual;
  }

  /** @returns null: it does not fit. One request is always let in. */
  enter(bytes: number): Hold | null {
    if (this.holders > 0 && this.with(bytes) > this.max) return null;
    this.holders++;
    return new Hold(this, bytes, bytes + this.usual);
  }

  charge(bytes: number): void {
    this.charged += bytes;
  }

  /** @param grown what it came to hold beyond its inputs; null: it did not come to its end. */
  left(grown: number | null): void {
    this.holders--;
    if (grown !== null) this.usual = Math.max(grown, this.usual - Math.ceil((this.usual - grown) / 8));
  }
}

/** Of one request, until it ends. */
export class Hold {
  private readonly gate: HeldBytes;
  private readonly own: number;
  private held: number;
  private charged: number;

  constructor(gate: HeldBytes, own: number, charged: number) {
    this.gate = gate;
    this.own = own;
    this.held = own;
    this.charged = charged;
    gate.charge(charged);
  }

  grow(bytes: number): void {
    this.held += bytes;
    if (this.held <= this.charged) return;
    this.gate.charge(this.held - this.charged);
    this.charged = this.held;
  }

  /** @param isWhole it went through all modules. */
  end(isWhole: boolean): void {
    this.gate.charge(-this.charged);
    this.charged = 0;
    this.gate.left(isWhole ? this.held - this.own : null);
  }
}
