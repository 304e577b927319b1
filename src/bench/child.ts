/** The benchmark's end of a child process. */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ServingError } from "../wire/serving-error.js";
import type { BenchAnswer, BenchJob } from "./bench-process.js";

/** The compiled entry; from the sources (tests), the one of the last build. */
const ENTRY = fileURLToPath(
  new URL(
    import.meta.url.endsWith(".ts") ? "../../dist/bench/bench-process.js" : "./bench-process.js",
    import.meta.url,
  ),
);

export class BenchChild {
  private readonly child: ChildProcess = fork(ENTRY, [], { stdio: ["ignore", "ignore", "inherit", "ipc"] });

  /** One job at a time. @throws ServingError internal with what the child said. */
  async do<T>(job: BenchJob): Promise<T> {
    const { child } = this;
    const answer = await new Promise<BenchAnswer>((resolve) => {
      const ended = () => settle({ error: "its process ended" });
      const settle = (message: BenchAnswer) => {
        child.off("message", settle as (message: unknown) => void);
        child.off("exit", ended);
        resolve(message);
      };
      child.on("message", settle as (message: unknown) => void);
      child.on("exit", ended);
      child.send(job);
    });
    if ("error" in answer) throw new ServingError("internal", `benchmark job '${job.kind}': ${answer.error}`);
    return answer.value as T;
  }

  close(): void {
    this.child.kill("SIGKILL");
  }
}
