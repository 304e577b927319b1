import { closeSync, openSync } from "node:fs";

/** A worker process takes a dozen while it starts, and keeps four. */
const COUNT = 16;

/** File descriptors kept for a worker to start with when clients hold all others; those of a worker that ended come back to it. */
export class SpareDescriptors {
  private readonly held: number[] = [];
  private hasEnded = false;

  get count(): number {
    return this.held.length;
  }

  /** As many as there are to be had, up to what is needed. */
  topUp(): void {
    if (this.hasEnded) return;
    try {
      while (this.held.length < COUNT) this.held.push(openSync("/dev/null", "r"));
    } catch {
      // Later, when some are given back.
    }
  }

  /** From now on none are kept. */
  end(): void {
    this.hasEnded = true;
    for (const descriptor of this.held.splice(0)) closeSync(descriptor);
  }

  /** Free for what `use` opens. */
  lend<T>(use: () => T): T {
    for (const descriptor of this.held.splice(0)) closeSync(descriptor);
    try {
      return use();
    } finally {
      this.topUp();
    }
  }
}
