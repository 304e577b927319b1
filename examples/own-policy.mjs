// A policy of one's own beside those that are there, in virtual time; no server is needed.
//
//   node examples/own-policy.mjs [scenario.yaml]
import { fileURLToPath } from "node:url";
import {
  BatchTimes,
  CLOSE_FULL,
  CLOSE_RETRY,
  CLOSE_TIMEOUT,
  deferred,
  eager,
  loadScenario,
  RankArbiter,
  simulate,
  WaitingRequests,
} from "rubato";

/** Earliest deadline first. A batch leaves when its first request has spent a share of its time, or when it is full. */
class PatientQueue {
  constructor(key, spec, core, share) {
    this.key = key;
    this.spec = spec;
    this.core = core;
    this.share = share;
    this.waiting = new WaitingRequests(core);
    this.times = new BatchTimes(key, spec, core);
  }

  get length() {
    return this.waiting.length;
  }

  arrived(request, at) {
    this.waiting.push(request);
    this.refresh(at);
  }

  returned(request, alone, at) {
    this.waiting.takeBack(request, alone);
    this.refresh(at);
  }

  remove(request, at) {
    this.waiting.remove(request);
    this.refresh(at);
  }

  planChanged(at) {
    this.refresh(at);
  }

  refreshDemand() {}

  get isRetry() {
    return this.waiting.retries.length > 0;
  }

  /** What those who go next must reach. */
  get dueAt() {
    const { pending, retries } = this.waiting;
    return this.isRetry ? retries.dueAt : pending.deadlineAt(0);
  }

  /** Nobody waits who would be late even alone; then the queue says what it would run, and when. */
  refresh(at) {
    const { key, spec, times } = this;
    const { offers } = this.core;
    this.waiting.dropLate(times.endOf(1, at), at);
    const size = this.largest(at, spec.latency.sizeMax);
    offers.size[key] = size;
    if (size > 0) {
      const lead = times.leadUs(size);
      offers.leadUs[key] = lead;
      offers.latestAt[key] = this.dueAt - times.execUs(1) - times.leadUs(1) + lead;
      offers.opensAt[key] = Math.max(at + lead, Math.min(this.patientUntil(size, at), this.dueAt - times.execUs(size)));
      offers.rank[key] = this.dueAt;
    }
    this.core.offerChanged(key, at);
  }

  /** This accelerator is ours: the members are chosen now. */
  take(accelerator, at) {
    const { times, waiting } = this;
    waiting.dropLate(times.endOf(1, at), at);
    const freeAt = times.freeAt(accelerator, at);
    const scale = this.core.accelerators.scale[accelerator];
    const size = this.largest(at, times.sizeMaxOn(accelerator), scale, freeAt);
    let batch = -1;
    if (size > 0) {
      const close = this.isRetry ? CLOSE_RETRY : size === this.spec.latency.sizeMax ? CLOSE_FULL : CLOSE_TIMEOUT;
      batch = times.add(waiting.take(size), size, accelerator, times.startOf(size, at, freeAt), close);
    }
    this.refresh(at);
    return batch;
  }

  /** The largest batch that whoever goes first can still be in. */
  largest(at, sizeMax, scale = undefined, freeAt = at) {
    let size = Math.min(sizeMax, this.isRetry ? 1 : this.waiting.pending.length);
    while (size > 0 && this.times.endOf(size, at, scale, freeAt) > this.dueAt) size--;
    return size;
  }

  /** Until when the batch of this size waits for others. */
  patientUntil(size, at) {
    const { pending } = this.waiting;
    if (this.isRetry || size < pending.length || size === this.spec.latency.sizeMax) return at;
    const arrivalAt = this.core.requests.arrivalAt[pending.handleAt(0)];
    return Math.floor(arrivalAt + this.share * (this.dueAt - arrivalAt));
  }
}

/** @param share of the time from its arrival to its deadline that a request waits for others. */
const patient = (share) => ({
  name: `patient ${share}`,
  createQueue: (key, spec, core) => new PatientQueue(key, spec, core, share),
  createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
});

const HELP = `usage: node examples/own-policy.mjs [scenario.yaml]

Serves a scenario (default: scenarios/overload.yaml) under two policies of the example's own and two that are there, in
virtual time, and prints how its requests ended. No server is needed.`;

const [first] = process.argv.slice(2);
if (first?.startsWith("-")) {
  const isHelp = first === "--help" || first === "-h";
  console[isHelp ? "log" : "error"](isHelp ? HELP : `${first}: it must be --help or a scenario`);
  process.exit(isHelp ? 0 : 2);
}
const file = first ?? fileURLToPath(new URL("../scenarios/overload.yaml", import.meta.url));
let scenario;
try {
  scenario = loadScenario(file);
} catch (error) {
  // What is wrong with a file is said with file, line and field.
  console.error(error.message);
  process.exit(2);
}
console.log("policy        finished    late  dropped  mean batch");
for (const policy of [patient(0.2), patient(0.5), deferred(), eager()]) {
  const report = simulate(scenario, { policy });
  const cells = [report.finished, report.late, report.dropped, report.batch_size.mean.toFixed(1)];
  console.log(`${policy.name.padEnd(12)}${cells.map((cell, i) => String(cell).padStart([10, 8, 9, 12][i])).join("")}`);
}
