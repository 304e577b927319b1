import { ServingError } from "../wire/serving-error.js";

/** Where load goes: one model of one server. */
export interface Target {
  /** As given, without the fragment. */
  readonly url: string;
  readonly protocol: "http" | "grpc";
  /** `http://host:port` (or https) for HTTP, `host:port` for gRPC. */
  readonly origin: string;
  /** HTTP: path of the model, as sent (`/v2/models/NAME`, with `/versions/V` if given). */
  readonly path: string;
  readonly model: string;
  /** "" = the server's choice. */
  readonly version: string;
  /** Relative part of the rate, > 0. */
  readonly share: number;
  /** Overrides --slo for this target; null = not given. */
  readonly sloMs: number | null;
}

const FORM =
  "must be http://HOST:PORT/v2/models/MODEL[/versions/V] or grpc://HOST:PORT/MODEL[/VERSION], optionally with #share=NUMBER&slo=MS";

/** @throws ServingError invalid-argument naming the target and what is wrong with it. */
export function parseTarget(text: string): Target {
  const fail = (what: string): never => {
    throw new ServingError("invalid-argument", `target '${text}': ${what}`);
  };
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return fail(FORM);
  }
  if (url.username !== "" || url.password !== "" || url.search !== "") fail(`no user or query is allowed; it ${FORM}`);
  const { share, sloMs } = parseFragment(url.hash.slice(1), fail);
  const common = { url: text.replace(/#.*$/, ""), share, sloMs };
  if (url.protocol === "http:" || url.protocol === "https:") {
    const match = /^\/v2\/models\/(.+?)(?:\/versions\/([^/]+))?(?:\/infer)?\/?$/.exec(url.pathname);
    if (match === null) return fail(`path '${url.pathname}' ${FORM}`);
    const path = `/v2/models/${match[1]}${match[2] === undefined ? "" : `/versions/${match[2]}`}`;
    const model = decodeURIComponent(match[1]!);
    return { ...common, protocol: "http", origin: url.origin, path, model, version: match[2] ?? "" };
  }
  if (url.protocol === "grpc:") {
    if (url.port === "") fail("a grpc target needs a port");
    const match = /^\/(.+?)(?:\/(\d+))?\/?$/.exec(url.pathname);
    if (match === null) return fail(FORM);
    const model = decodeURIComponent(match[1]!);
    return { ...common, protocol: "grpc", origin: url.host, path: "", model, version: match[2] ?? "" };
  }
  return fail(`scheme '${url.protocol}//' is not one of http://, https://, grpc://`);
}

function parseFragment(fragment: string, fail: (what: string) => never): { share: number; sloMs: number | null } {
  let share = 1;
  let sloMs: number | null = null;
  for (const [key, value] of new URLSearchParams(fragment)) {
    const number = Number(value);
    if (!(number > 0) || !Number.isFinite(number)) fail(`'${key}' must be a number > 0; was '${value}'`);
    if (key === "share") share = number;
    else if (key === "slo") sloMs = number;
    else fail(`'${key}' is not one of share, slo`);
  }
  return { share, sloMs };
}
