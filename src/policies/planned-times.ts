import type { NetworkDelays } from "../core/policy.js";

/** Numbers of a row. */
const EXEC = 0;
const LEAD = 1;
const END = 2;
const JOIN = 3;
const CLOSE = 4;
const WIDTH = 5;

/**
 * What a batch of each size takes on the fastest accelerator present, with the delays before it: what every plan of a queue
 * but a grant's is made with. In rows: what an arrival asks of one size lies in one line of memory.
 */
export class PlannedTimes {
  readonly sizeMax: number;
  /** l(b), and from the decision to the planned end, by b in [1, sizeMax + 1]; see linearTable. */
  readonly execTable: Float64Array;
  readonly endTable: Float64Array;
  private readonly rows: Float64Array;

  constructor(sizeMax: number) {
    this.sizeMax = sizeMax;
    this.execTable = new Float64Array(sizeMax + 2);
    this.endTable = new Float64Array(sizeMax + 2);
    this.rows = new Float64Array(WIDTH * (sizeMax + 2));
  }

  /**
   * @param execUs on scale 1; see linearTable. @param scale of the fastest. @param slackUs room for timers that fire late.
   * @param mayEndLate a request alone need only begin by its deadline, and holds a larger batch until then.
   */
  plan(execUs: Float64Array, scale: number, network: NetworkDelays, slackUs: number, mayEndLate: boolean): void {
    const { sizeMax, execTable, endTable, rows } = this;
    const { controlUs, dataUsPerRequest } = network;
    rows[LEAD] = controlUs;
    for (let size = 1; size <= sizeMax + 1; size++) {
      const row = WIDTH * size;
      execTable[size] = Math.ceil(execUs[size]! * scale);
      endTable[size] = execTable[size]! + controlUs + size * dataUsPerRequest + slackUs;
      rows[row + EXEC] = execTable[size]!;
      rows[row + LEAD] = controlUs + size * dataUsPerRequest;
      rows[row + END] = endTable[size]!;
      rows[row + CLOSE] = mayEndLate ? (1 - size) * dataUsPerRequest : slackUs + execTable[size]!;
      // One more request would need its data moved too.
      rows[row - WIDTH + JOIN] = slackUs + execTable[size]! + dataUsPerRequest;
    }
  }

  /** l(size). */
  execUs(size: number): number {
    return this.rows[WIDTH * size]!;
  }

  /** How long before its start a batch must be handed over: control and data delay. */
  leadUs(size: number): number {
    return this.rows[WIDTH * size + LEAD]!;
  }

  /** From the decision to the planned end. */
  endUs(size: number): number {
    return this.rows[WIDTH * size + END]!;
  }

  /** How long before its deadline a batch must start so that one more request can join it. */
  joinUs(size: number): number {
    return this.rows[WIDTH * size + JOIN]!;
  }

  /** How long before its deadline a batch starts at the latest. */
  closeUs(size: number): number {
    return this.rows[WIDTH * size + CLOSE]!;
  }
}
