/** What a server can serve, and what it cannot of a model: said alike by `check` and by loading. */
import { type AcceleratorGroupSpec, GROUP_AUTO, type ModelSpec } from "../../config/model.js";
import { autoKind, type ServerConfig } from "../../config/server/server.js";

export interface HostLimits {
  readonly groups: readonly AcceleratorGroupSpec[];
  /** Kind of the groups that placement chooses from; null: there is no placement. */
  readonly placedKind: AcceleratorGroupSpec["kind"] | null;
}

export const hostLimits = (config: ServerConfig): HostLimits => ({
  groups: config.groups,
  placedKind: autoKind(config) ?? null,
});

/** @returns a sentence that names the model, the field, the bound and the value; null: it can be served. */
export function hostProblem(spec: ModelSpec, host: HostLimits): string | null {
  const problem = groupProblem(spec, host);
  return problem === null ? null : `model '${spec.name}': ${problem}`;
}

function groupProblem(
  { group: name, platform, emulated, policy, namesPolicy }: ModelSpec,
  host: HostLimits,
): string | null {
  const kind = emulated === null ? "onnx" : "emulated";
  if (name === GROUP_AUTO) {
    if (host.placedKind === null)
      return "group must name a group; was auto, which needs placement.groups in the server's configuration";
    if (host.placedKind === kind) return null;
    return `group must name a group; was auto, but placement has groups of kind ${host.placedKind}, which cannot run platform ${platform}`;
  }
  const group = host.groups.find((candidate) => candidate.name === name);
  if (group === undefined)
    return `group must be one of ${host.groups.map((each) => each.name).join(", ")}; was ${name}`;
  if (group.policy !== undefined && namesPolicy === true)
    return `policy must be absent in group '${name}', which has the policy ${group.policy.name}; was ${policy}`;
  if (group.kind === kind) return null;
  return `group must be of kind ${kind}, which runs platform ${platform}; was '${name}' of kind ${group.kind}`;
}

/** @param aloneUs l(1), µs. @returns why not even a lone request is in time; null: it can be. */
export function sloProblem({ sloUs }: ModelSpec, aloneUs: number): string | null {
  if (sloUs === null || aloneUs <= sloUs) return null;
  return belowProfile(sloUs, aloneUs, "one request");
}

/** @param sloUs less than `leastUs`, the profiled time of `what`. */
export const belowProfile = (sloUs: number, leastUs: number, what: string): string =>
  `slo_ms is ${sloUs / 1000}, less than the profiled time of ${what} (${(leastUs / 1000).toFixed(3)} ms): who names no longer deadline is refused until runs are measured to be faster`;
