import { SpareDescriptors } from "./spare-descriptors.js";
import { type Hello, type WorkerLink, WorkerProcess, type WorkerProcessHandlers } from "./worker-process.js";
import { WorkerWarden } from "./worker-warden.js";

/** Where the workers of a pool come from. */
export interface WorkerSource {
  /** @throws ServingError unavailable when none can be had now. */
  start(hello: Hello, handlers: WorkerProcessHandlers): WorkerLink;
  /** These are all of its process ids, from now on. */
  changed(pids: readonly number[]): void;
  /** No more are needed, and none is left. */
  end(): void;
}

/** Child processes, which go with the server however that ends. */
export class ChildProcesses implements WorkerSource {
  private readonly warden = new WorkerWarden();
  private readonly spare = new SpareDescriptors();

  start(hello: Hello, handlers: WorkerProcessHandlers): WorkerLink {
    return this.spare.lend(() => new WorkerProcess(hello, handlers));
  }

  changed(pids: readonly number[]): void {
    // What an ended one held is free again.
    this.spare.topUp();
    this.warden.watch(pids);
  }

  end(): void {
    this.warden.end();
    this.spare.end();
  }
}
