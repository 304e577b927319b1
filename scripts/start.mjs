// `npm start`: install and build when needed, then serve the models of this repository.
import { ensure } from "./ensure.mjs";

ensure();
const args = process.argv.slice(2);
process.argv = [process.argv[0], "rubato", "serve", ...args];
await import("../dist/cli/main.js");
