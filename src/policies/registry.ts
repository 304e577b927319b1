/** Every policy, a line each. */
import type { NamedPolicy } from "../core/event-log.js";
import { invariant } from "../core/invariant.js";
import type { Policy, SeparablePolicy } from "../core/policy.js";
import { clipper, clipperPolicy } from "./baselines/clipper/clipper.js";
import { clipperPlus, clipperPlusPolicy, naive, naivePolicy } from "./baselines/clipper/in-pipelines.js";
import { clockwork, clockworkPolicy } from "./baselines/clockwork/clockwork.js";
import { nexus, nexusPolicy } from "./baselines/nexus/nexus.js";
import { tfserving, tfservingPolicy } from "./baselines/servers/tfserving.js";
import { triton, tritonPolicy } from "./baselines/servers/triton.js";
import { shepherd, shepherdPolicy } from "./baselines/shepherd/shepherd.js";
import { deferred, deferredPolicy } from "./deferred/deferred.js";
import { auto, autoPolicy, deferredPlus, deferredPlusPolicy } from "./deferred/deferred-plus.js";
import { eager, eagerPolicy } from "./deferred/eager.js";
import { timeout, timeoutPolicy } from "./deferred/timeout.js";
import type { PolicyDescriptor } from "./descriptor.js";
import { distribution, distributionPolicy } from "./distribution/distribution.js";
import { distributionPlus, distributionPlusPolicy } from "./distribution/distribution-plus.js";
import { fixedSizePolicy } from "./fixed-size/fixed-size.js";
import { LIVE_ON_THREADS, livePolicy, separableLivePolicy } from "./live.js";
import type { GivenOptions, OptionTable } from "./options.js";
import { infaasPolicy, petsPolicy, tomePolicy, vptPolicy } from "./otas/baselines.js";
import { otas, otasPlus, otasPlusPolicy, otasPolicy } from "./otas/otas.js";
import { fixedGammaPolicy, queueGammaPolicy } from "./otas/simple/simple-policies.js";
import { pard, pardPolicy } from "./pard/pard.js";

export {
  auto,
  clipper,
  clipperPlus,
  clockwork,
  deferred,
  deferredPlus,
  distribution,
  distributionPlus,
  eager,
  naive,
  nexus,
  otas,
  otasPlus,
  pard,
  shepherd,
  tfserving,
  timeout,
  triton,
};

/** In the order of the reference. */
const POLICIES = [
  autoPolicy,
  deferredPolicy,
  deferredPlusPolicy,
  eagerPolicy,
  timeoutPolicy,
  distributionPolicy,
  distributionPlusPolicy,
  pardPolicy,
  otasPolicy,
  otasPlusPolicy,
  fixedSizePolicy,
  tfservingPolicy,
  tritonPolicy,
  clipperPolicy,
  clipperPlusPolicy,
  naivePolicy,
  clockworkPolicy,
  nexusPolicy,
  shepherdPolicy,
  petsPolicy,
  infaasPolicy,
  tomePolicy,
  vptPolicy,
  fixedGammaPolicy,
  queueGammaPolicy,
] as unknown as readonly PolicyDescriptor[];

export const POLICY_NAMES = POLICIES.map(({ name }) => name) as [string, ...string[]];

const BY_NAME: ReadonlyMap<string, PolicyDescriptor> = new Map(POLICIES.map((policy) => [policy.name, policy]));

/** @throws InvariantViolation when there is none of this name. */
export function policyNamed(name: string): PolicyDescriptor {
  const policy = BY_NAME.get(name);
  invariant(policy !== undefined, `policy must be one of ${POLICY_NAMES.join(", ")}; was ${name}`);
  return policy;
}

/** @param options checked against the policy's own. */
export const createPolicy = (name: string, options: Readonly<Record<string, unknown>>): Policy =>
  policyNamed(name).create(options as GivenOptions<OptionTable>);

/** The policy of an accelerator group of the live server. */
export const groupPolicy = ({ policy }: { readonly policy?: NamedPolicy }): Policy =>
  policy === undefined ? livePolicy() : createPolicy(policy.name, policy.options);

/** Whether the group's policy knows what batches take by the kinds of who is in them. */
export const plansByKind = (group: { readonly policy?: NamedPolicy }): boolean => {
  if (group.policy === undefined) return false;
  const { createLatency, isByVariant } = groupPolicy(group);
  return createLatency !== undefined && isByVariant !== true;
};

/**
 * @param name of a policy that can run on many threads, or LIVE_ON_THREADS: the live server's, whose queues bring their own rules.
 * @throws InvariantViolation when queues and arbiter of the policy must share one thread.
 */
export function createSeparablePolicy(name: string, options: Readonly<Record<string, unknown>>): SeparablePolicy {
  if (name === LIVE_ON_THREADS) return separableLivePolicy();
  const policy = policyNamed(name);
  const names = POLICIES.filter(({ isSeparable }) => isSeparable).map((each) => each.name);
  invariant(policy.isSeparable, `policy on many threads must be one of ${names.join(", ")}; was ${name}`);
  return policy.create(options as GivenOptions<OptionTable>) as SeparablePolicy;
}
