import type { OfferTable, QueueKey, QueueSpec } from "../policy.js";
import type { AcceleratorId, AcceleratorTable } from "../tables/accelerator-table.js";

/** Requests looked back on: what none of so many needed, the next ones are taken not to need. */
export const LOOK_BACK = 500;
/** Times that the run must fit into what each of them had left. */
const MARGIN = 2;

/**
 * Whether a run that cannot be interrupted has room: so that it makes nobody late.
 *
 * Who waits must be able to start after it. Who may come is not known, so what the last 500 requests and more were like stands for it.
 * Either they all ended with twice the time left that the run takes: it delays what follows by no more than that. Or none of
 * them needed the accelerator: then nothing that is scheduled changes at all.
 */
export class ShadowRoom {
  private readonly accelerators: AcceleratorTable;
  private readonly offers: OfferTable;
  /** Least time that was left until its deadline, of the younger and the older block of requests. */
  private younger = Number.POSITIVE_INFINITY;
  private older = Number.POSITIVE_INFINITY;
  private inYounger = 0;
  private ended = 0;
  /** By accelerator: requests that had ended when it was used last. */
  private readonly usedAt: Float64Array;

  constructor(accelerators: AcceleratorTable, offers: OfferTable) {
    this.accelerators = accelerators;
    this.offers = offers;
    this.usedAt = new Float64Array(accelerators.capacity);
  }

  /** A request ended, this long before its deadline; 0 or less: not in time. */
  requestEnded(slackUs: number): void {
    this.ended++;
    if (slackUs < this.younger) this.younger = slackUs;
    if (++this.inYounger < LOOK_BACK) return;
    this.older = this.younger;
    this.younger = Number.POSITIVE_INFINITY;
    this.inYounger = 0;
  }

  /** An accelerator ran requests, or has just come. */
  used(id: AcceleratorId): void {
    this.usedAt[id] = this.ended;
  }

  /** The accelerator that is wanted last: idle, and no straggler. -1: there is none. */
  get idle(): AcceleratorId {
    const { accelerators } = this;
    for (let id = accelerators.capacity - 1; id >= 0; id--)
      if (accelerators.present[id] === 1 && accelerators.inFlight(id) === 0 && this.isPlain(id)) return id;
    return -1;
  }

  /** Where a measurement is a matter of trust, it is left to those who wait for an answer. */
  private isPlain(id: AcceleratorId): boolean {
    const { accelerators } = this;
    return !accelerators.isOnTrial(id) && !accelerators.isDoubted(id) && !accelerators.isStraggler(id);
  }

  /** @param us that it takes at most, from its decision on. @param specs of the queues, by key. */
  isFree(id: AcceleratorId, us: number, at: number, specs: readonly (QueueSpec | undefined)[]): boolean {
    if (this.ended < LOOK_BACK) return false;
    for (let key: QueueKey = 0; key < specs.length; key++)
      if (this.offers.size[key]! > 0 && at + us > this.offers.latestAt[key]!) return false;
    if (this.ended - this.usedAt[id]! >= LOOK_BACK) return true;
    if (Math.min(this.younger, this.older) < MARGIN * us) return false;
    // A model that is seldom asked for was perhaps not among them.
    for (const spec of specs)
      if (spec !== undefined && us + spec.latency.execUs[1]! * this.accelerators.fastestScale > spec.sloUs)
        return false;
    return true;
  }
}
