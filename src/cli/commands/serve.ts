/** `rubato serve`: serves a model repository until it is told to stop. */

import { setTimeout as delay } from "node:timers/promises";
import { Command, Option } from "commander";
import type { ServerConfig } from "../../config/server/server.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { EXIT_FAILED, RunFailed } from "../exit.js";
import { integerWithin } from "../option-values.js";
import type { Output } from "../output.js";
import { CONFIG_OPTION, type ServerConfigOptions, serverConfigOf } from "../server-config.js";
import { packageVersion } from "../version.js";

/**
 * Ctrl-C is a person who waits, and traffic that goes on is not waited for; SIGTERM is a machine that may still be
 * telling others to send elsewhere.
 */
const QUIET_MS = { SIGINT: 100, SIGTERM: 2000 } as const;
const LAME_MS = { SIGINT: 1000, SIGTERM: undefined } as const;
/** Under npm one Ctrl-C comes twice, from the terminal and from npm: that is not a person who insists. */
const SAME_SIGNAL_US = 300_000;
/** 128 + SIGINT: the convention for a process that was told twice. */
const EXIT_AT_ONCE = 130;
/** For a server that could not start or broke to end in order. */
const BROKEN_END_MS = 3000;

interface ServeOptions extends ServerConfigOptions {
  readonly modelControl?: "none" | "explicit";
}

export function serveCommand(output: Output): Command {
  const port = integerWithin({ min: 0, max: 65_535 });
  return new Command("serve")
    .summary("serve a model repository")
    .description(
      "Serves the models of a repository over HTTP and gRPC (Open Inference Protocol v2), with deadlines. Metrics are " +
        "at /metrics of the HTTP port. SIGINT or SIGTERM ends it gracefully; a second one at once.",
    )
    .option("--models <dir>", "model repository (default: models)")
    .option("--http <port>", "HTTP port; 0 = any free one (default: 8000)", port)
    .option("--grpc <port>", "gRPC port; 0 = any free one (default: 8001)", port)
    .option("--host <address>", "address to bind (default: 127.0.0.1)")
    .option(...CONFIG_OPTION)
    .addOption(
      new Option("--model-control <mode>", "none: load every model at start; explicit: load by request").choices([
        "none",
        "explicit",
      ]),
    )
    .addHelpText(
      "after",
      `
Examples:
  rubato serve                                   the models of ./models on ports 8000 and 8001
  rubato serve --models /srv/models --http 9000  another repository, another port`,
    )
    .action(async (options: ServeOptions) => {
      await serve(configOf(options), output);
    });
}

function configOf(options: ServeOptions): ServerConfig {
  const config = serverConfigOf(options);
  return options.modelControl === undefined ? config : { ...config, modelControl: options.modelControl };
}

async function serve(config: ServerConfig, output: Output): Promise<void> {
  const { runServer } = await import("../../serve/running-server.js");
  const { checkRepository } = await import("../../serve/repository/repository.js");
  for (const stray of checkRepository(config.modelsDir, config.modelControl === "explicit"))
    output.note(`warning: ${stray}`);
  let break_: (error: unknown) => void = () => {};
  const broken = new Promise<never>((_, reject) => {
    break_ = reject;
  });
  const running = await runServer(config, packageVersion(), (error) => break_(error)).catch((error: unknown) => {
    throw new RunFailed(`the server cannot start: ${(error as Error).message}`);
  });
  const { server, log } = running;
  let endingSince = Number.POSITIVE_INFINITY;
  const stopped = new Promise<void>((resolve, reject) => {
    const onSignal = (signal: "SIGINT" | "SIGTERM"): void => {
      const now = monotonicNow();
      if (now - endingSince > SAME_SIGNAL_US) process.exit(EXIT_AT_ONCE);
      if (Number.isFinite(endingSince)) return;
      endingSince = now;
      log.info({ signal }, "not ready any more; finishing what is in flight");
      running.stop(QUIET_MS[signal], LAME_MS[signal]).then(resolve, reject);
    };
    process.on("SIGINT", onSignal);
    process.on("SIGTERM", onSignal);
  });
  const ready = running.started.then(
    () => {
      const names = server.modelNames();
      const grpc = running.grpcTarget === null ? "" : `  gRPC ${running.grpcTarget}`;
      output.result(
        `rubato ready: ${running.httpUrl}${grpc}  models: ${names.length === 0 ? "none" : names.join(", ")}`,
      );
      for (const { name, state, reason } of server.repositoryIndex(false))
        if (state !== "READY" && config.modelControl === "none")
          output.note(`rubato: model '${name}' is not served: ${reason}`);
      if (!server.ready)
        output.note(
          "rubato: health says not ready, since not every model is served (ready_when: any_model says otherwise)",
        );
      return stopped;
    },
    (error: unknown) => {
      // Workers that a signal ended before they were ready: that is no failure to start.
      if (Number.isFinite(endingSince)) return stopped;
      throw new RunFailed(`the server cannot start: ${(error as Error).message}`);
    },
  );
  try {
    await Promise.race([ready, stopped, broken]);
  } catch (error) {
    log.fatal({ err: error }, "the server ends");
    // What hangs must not keep a broken server from ending. This wait holds the process: with nothing else left to wait
    // for, Node would end it with its own exit code and without the reason.
    if (error instanceof RunFailed) await Promise.race([running.stop(0).catch(() => {}), delay(BROKEN_END_MS)]);
    setTimeout(() => process.exit(EXIT_FAILED), BROKEN_END_MS).unref();
    throw error;
  }
  // Timers and sockets of clients may be open still; everything of ours is done.
  process.exit(0);
}
