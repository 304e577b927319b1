/** Largest of the values of the last while, in fixed memory: the window is cut into pieces, each keeps its largest. */
const PIECES = 60;

export class WindowMax {
  private readonly pieceUs: number;
  private readonly largest = new Float64Array(PIECES + 1).fill(Number.NEGATIVE_INFINITY);
  /** Number of the piece that each entry holds, counted from time 0. */
  private readonly piece = new Float64Array(PIECES + 1).fill(-1);

  /** @param windowUs length, µs. A value is kept for that long and at most a sixtieth longer. */
  constructor(windowUs: number) {
    this.pieceUs = Math.max(1, Math.ceil(windowUs / PIECES));
  }

  add(value: number, at: number): void {
    const piece = Math.floor(at / this.pieceUs);
    const index = piece % this.piece.length;
    if (this.piece[index] !== piece) {
      this.piece[index] = piece;
      this.largest[index] = value;
    } else if (value > this.largest[index]!) this.largest[index] = value;
  }

  /** -Infinity when nothing was added within the window. */
  max(at: number): number {
    const oldest = Math.floor(at / this.pieceUs) - PIECES;
    let max = Number.NEGATIVE_INFINITY;
    for (let index = 0; index < this.piece.length; index++)
      if (this.piece[index]! >= oldest && this.largest[index]! > max) max = this.largest[index]!;
    return max;
  }
}
