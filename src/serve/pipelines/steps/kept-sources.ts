/** Hooks of Node's module loader: step files as they were when their pipeline was loaded, whatever has become of them. */
import type { InitializeHook, LoadHook, ResolveHook } from "node:module";
import type { KeptSources } from "./step-protocol.js";

let kept: KeptSources = {};

export const initialize: InitializeHook<KeptSources> = (sources) => {
  kept = sources;
};

/** The file may be gone. */
export const resolve: ResolveHook = (specifier, context, next) =>
  Object.hasOwn(kept, specifier) ? { url: specifier, format: "module", shortCircuit: true } : next(specifier, context);

export const load: LoadHook = (url, context, next) =>
  Object.hasOwn(kept, url) ? { format: "module", source: kept[url]!, shortCircuit: true } : next(url, context);
