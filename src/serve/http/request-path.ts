/**
 * What a path under /v2/models/ asks for: NAME[/versions/VERSION][/ACTION].
 *
 * Names may hold slashes, written plainly or as %2F (clients differ). An action needs a name before it, so a model called
 * "infer" is reached as /v2/models/infer/infer. Where no model NAME is served but one called NAME/ACTION, that is meant
 * (`readAsName`). /v2/models/stats is the statistics of all models, and holds the metadata of one of that name as well.
 */
export type ModelAction =
  | "metadata"
  | "infer"
  | "ready"
  | "config"
  | "stats"
  | "generate"
  | "generate_stream"
  | "trace";

export interface ModelPath {
  readonly name: string;
  /** "" = the server's choice. */
  readonly version: string;
  readonly action: ModelAction;
}

const ACTIONS: ReadonlySet<string> = new Set(["infer", "ready", "config", "stats", "generate", "generate_stream"]);

/** The other way to read NAME/ACTION: all of it may be the name of a model. */
export function readAsName({ name, version, action }: ModelPath): ModelPath | null {
  if (version !== "" || !ACTIONS.has(action)) return null;
  return { name: `${name}/${action}`, version: "", action: "metadata" };
}

/** @returns null when the path names no model, or is not validly percent-encoded. */
export function parseModelPath(path: string): ModelPath | null {
  const segments = path.split("/");
  if (segments.at(-1) === "") segments.pop();
  let end = segments.length;
  let action: ModelAction = "metadata";
  const last = segments[end - 1];
  if (end >= 2 && last !== undefined && ACTIONS.has(last)) {
    action = last as ModelAction;
    end -= 1;
  } else if (end >= 3 && last === "setting" && segments[end - 2] === "trace") {
    action = "trace";
    end -= 2;
  }
  let version = "";
  if (end >= 3 && segments[end - 2] === "versions") {
    version = segments[end - 1]!;
    end -= 2;
  }
  try {
    const name = decodeURIComponent(segments.slice(0, end).join("/"));
    return name === "" ? null : { name, version: decodeURIComponent(version), action };
  } catch {
    return null;
  }
}
