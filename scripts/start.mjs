// `npm start`: install and build when needed, then serve the models of this repository.
import { ensure } from "./ensure.mjs";

ensure();
const parent = process.ppid;
// npm may be ended without telling its child: a server that nobody can stop any more stops itself.
setInterval(() => {
  if (process.ppid !== parent) process.kill(process.pid, "SIGTERM");
}, 1000).unref();
process.argv = [process.argv[0], "rubato", "serve", ...process.argv.slice(2)];
await import("../dist/cli/main.js");
