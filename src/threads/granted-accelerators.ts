import type { AcceleratorView } from "../core/policy.js";
import type { AcceleratorId } from "../core/tables/accelerator-table.js";

/** What the rank said of accelerators: how many there are with every change, of each when it is granted or where something is shared. */
export class GrantedAccelerators implements AcceleratorView {
  count = 0;
  fastestScale = 1;
  readonly capacity: number;
  readonly present: Uint8Array;
  readonly scale: Float64Array;
  readonly freeAt: Float64Array;
  private readonly held: Uint8Array;
  private readonly trial: Uint8Array;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.present = new Uint8Array(capacity);
    this.scale = new Float64Array(capacity).fill(1);
    this.freeAt = new Float64Array(capacity);
    this.held = new Uint8Array(capacity);
    this.trial = new Uint8Array(capacity);
  }

  /** @param scale 0: it is absent. */
  told(id: AcceleratorId, scale: number): void {
    this.present[id] = scale > 0 ? 1 : 0;
    if (scale > 0) this.scale[id] = scale;
  }

  /** @param cells of a GRANT record. */
  granted(id: AcceleratorId, cells: Float64Array, from: number): void {
    this.freeAt[id] = cells[from + 4]!;
    this.scale[id] = cells[from + 5]!;
    this.held[id] = cells[from + 6]!;
    this.trial[id] = cells[from + 7]!;
  }

  inFlight(id: AcceleratorId): number {
    return this.held[id]!;
  }

  isOnTrial(id: AcceleratorId): boolean {
    return this.trial[id] === 1;
  }
}
