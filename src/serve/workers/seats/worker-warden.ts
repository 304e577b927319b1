import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";

/** Keeps the newest line; when there are no more, the server is gone, and so is whoever that line names. */
const SCRIPT = `trap '' INT TERM HUP QUIT; while read -r pids; do last=$pids; done; [ -z "$last" ] || kill -9 $last`;

/**
 * Ends the workers of a server that was killed. A worker ends itself when its channel closes, but not while it is stopped
 * (SIGSTOP, a debugger): it would keep its memory, and its device, for ever. Nothing that Node offers lets the kernel do
 * it, so a shell waits for the end of a pipe; without a shell workers are as they were.
 */
export class WorkerWarden {
  private child: ChildProcess | null = null;

  /** Processes that are to go with the server, from now on. */
  watch(pids: readonly number[]): void {
    this.child ??= start();
    this.child.stdin!.write(`${pids.join(" ")}\n`);
  }

  end(): void {
    this.child?.stdin?.end("\n");
    this.child = null;
  }
}

function start(): ChildProcess {
  const child = spawn("/bin/sh", ["-c", SCRIPT], { stdio: ["pipe", "ignore", "ignore"] });
  child.on("error", () => {});
  child.stdin!.on("error", () => {});
  child.unref();
  (child.stdin as Socket).unref();
  return child;
}
