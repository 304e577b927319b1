import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";

/** What a thread of a pool answers with. */
export interface ThreadAnswer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
}

/** Runs independent jobs on threads, in the order they were given; a job is one message, its result another. */
export class ThreadPool {
  private readonly idle: Worker[] = [];
  private readonly workers: Worker[] = [];
  private readonly queue: { readonly id: number; readonly job: unknown }[] = [];
  private readonly pending = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  private readonly sizeMax: number;
  private readonly script: URL;
  private nextId = 0;
  private closed = false;

  /**
   * @param script of a thread that answers each `{ id, job }` with a ThreadAnswer of the same id.
   * @param threads at most; started when needed.
   */
  constructor(script: URL, threads = availableParallelism()) {
    this.script = script;
    this.sizeMax = Math.max(1, threads);
  }

  /** @throws what the job threw, by its message. */
  submit<T>(job: unknown): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const id = this.nextId++;
      this.pending.set(id, { resolve: resolve as never, reject });
      this.queue.push({ id, job });
      this.pump();
    });
  }

  /** Running jobs end where they are; their promises stay open. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.all(this.workers.map((worker) => worker.terminate()));
  }

  private pump(): void {
    while (this.queue.length > 0) {
      const worker = this.idle.pop() ?? (this.workers.length < this.sizeMax ? this.spawn() : undefined);
      if (worker === undefined) return;
      worker.postMessage(this.queue.shift());
    }
  }

  private spawn(): Worker {
    const worker = new Worker(this.script);
    this.workers.push(worker);
    worker.on("message", ({ id, result, error }: ThreadAnswer) => {
      const waiter = this.pending.get(id)!;
      this.pending.delete(id);
      this.idle.push(worker);
      if (error === undefined) waiter.resolve(result as never);
      else waiter.reject(new Error(error));
      this.pump();
    });
    worker.on("error", (error) => this.fail(error));
    worker.on("exit", (code) => {
      if (!this.closed && code !== 0) this.fail(new Error(`a simulation thread ended with ${code}`));
    });
    return worker;
  }

  private fail(error: Error): void {
    for (const { reject } of this.pending.values()) reject(error);
    this.pending.clear();
    this.queue.length = 0;
  }
}
