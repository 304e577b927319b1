/** The command `rubato` and its subcommands. Each is a file under commands/ that loads heavy rooms only when it runs. */
import { Command } from "commander";
import { benchCommand } from "./commands/bench.js";
import { checkCommand } from "./commands/check.js";
import { goodputCommand } from "./commands/goodput.js";
import { loadCommand } from "./commands/load.js";
import { planCommand } from "./commands/plan.js";
import { profileCommand } from "./commands/profile.js";
import { reproduceCommand } from "./commands/reproduce.js";
import { serveCommand } from "./commands/serve.js";
import { simulateCommand } from "./commands/simulate.js";
import { type Output, processOutput } from "./output.js";
import { packageVersion } from "./version.js";

/** A subcommand; it throws what exit.ts turns into an exit code. */
export type CommandFactory = (output: Output) => Command;

const COMMANDS: readonly CommandFactory[] = [
  serveCommand,
  checkCommand,
  profileCommand,
  simulateCommand,
  goodputCommand,
  reproduceCommand,
  planCommand,
  loadCommand,
  benchCommand,
];

export function buildProgram(output: Output = processOutput): Command {
  const program = new Command("rubato");
  program
    .description("Serves neural networks on time: a deadline-aware inference server, simulator and load generator.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show help of a command")
    .showHelpAfterError("(rubato --help shows what there is)")
    .exitOverride()
    .configureOutput({ writeOut: (text) => output.result(text), writeErr: (text) => output.note(text) })
    .addHelpText(
      "after",
      `
Exit codes: 0 success, 1 the run failed, 2 the arguments or the input are wrong.

Examples:
  rubato serve                                                  the models of ./models, over HTTP and gRPC
  rubato check scenarios                                        validate every scenario of a folder
  rubato simulate scenarios/symphony/table2-resnet50.yaml       one simulated run
  rubato goodput scenarios/symphony/table2-resnet50.yaml        the highest rate it serves in time`,
    );
  for (const factory of COMMANDS) {
    const command = factory(output);
    command.copyInheritedSettings(program);
    command.showHelpAfterError(`(rubato ${command.name()} --help shows what there is)`);
    program.addCommand(command);
  }
  return program;
}
