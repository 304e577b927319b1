/** Entry point of `bin/rubato.js`. */
import { endOnClosedPipe, reportError } from "./exit.js";
import { buildProgram } from "./program.js";

endOnClosedPipe(process.stdout);
endOnClosedPipe(process.stderr);
try {
  await buildProgram().parseAsync(process.argv);
} catch (error) {
  // Not process.exit: what is still in the pipe must get out.
  process.exitCode = reportError(error);
}
