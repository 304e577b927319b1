/**
 * Entry of the process in which the steps of one pipeline run, on threads. What ends a whole process (a heap that runs out at
 * once, a native module) ends this one and not the server. When its channel closes, for whatever reason, it is gone at once.
 */
import type { FrameChannel } from "../../../wire/frame-channel.js";
import type { Frame } from "../../../wire/frames.js";
import { ServingError } from "../../../wire/serving-error.js";
import { type FromStepHost, readFrame, sayFrame, stepChannel, type ToStepHost } from "./step-frames.js";
import { StepThreads } from "./step-threads.js";

/** SIGKILL to ourselves: ending the ordinary way waits for threads, which may be where nothing reaches them. */
const vanish = (): void => {
  process.kill(process.pid, "SIGKILL");
};

// A terminal's Ctrl-C reaches the whole group: when this ends is the server's to say.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

const channel: FrameChannel = stepChannel({ onFrame: hear, onClose: vanish });
let threads: StepThreads | null = null;

function say(message: FromStepHost): void {
  try {
    sayFrame(channel, message);
  } catch (error) {
    if (!(error instanceof ServingError && message.kind === "done")) throw error;
    const { thread, life, run } = message;
    say({ kind: "failed", thread, life, run, code: "internal", message: `what it returned: ${error.message}` });
  }
}

function hear(frame: Frame): void {
  const message = readFrame(frame) as unknown as ToStepHost;
  switch (message.kind) {
    case "start":
      process.title = `rubato-steps ${message.pipeline}`;
      threads = new StepThreads(message, say);
      threads.start().then(
        () => say({ kind: "started" }),
        (error: Error) => say({ kind: "unloadable", message: error.message }),
      );
      break;
    case "run":
      threads!.run(message);
      break;
    case "replace":
      say({ kind: "replacing" });
      threads!.replace(message.thread, message.life);
      break;
    case "end":
      void threads?.close().then(vanish);
  }
}
