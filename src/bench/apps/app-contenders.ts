/** Who is compared where requests come from apps: policies that know them, the others, and a model of its own for each app. */

import { type Contender, DEFAULT, EAGER, timeoutsOf } from "../default/paired-runs.js";
import { CPU_WORKERS } from "../serving/measured-profile.js";
import type { PolicyModel } from "../serving/policy-models.js";

const plain = (name: string): Contender => ({ name, timeoutFraction: null });

/** `distribution+`, told of apps. */
export const BY_APP = plain("distribution-plus");
/** The same where requests name no app: told apart by size. */
export const BY_SIZE = plain("by-size");
/** Each app has a model of its own, deferred, as its users would have it. */
export const SESSIONS = plain("sessions");
/** Beside the default, eager and timeouts. */
export const OF_APPS: readonly Contender[] = [BY_APP, BY_SIZE, SESSIONS];

export const appContenders = (timeouts: readonly number[]): Contender[] => [
  DEFAULT,
  EAGER,
  ...OF_APPS,
  ...timeoutsOf(timeouts),
];

export const namesApps = ({ name }: Contender): boolean => name !== BY_SIZE.name;
const plansByKind = ({ name }: Contender): boolean => name === BY_APP.name || name === BY_SIZE.name;

export const groupOf = ({ name }: Contender): string => name.replace(".", "-");

/** As the server's configuration has it. */
export const groupConfig = (contender: Contender): object => ({
  ...CPU_WORKERS,
  ...(plansByKind(contender) ? { policy: "distribution+" } : {}),
});

/** Name of the model that an app's requests go to. */
export const modelOf = (contender: Contender, model: string, app: string): string =>
  contender.name === SESSIONS.name ? `${groupOf(contender)}-${model}-${app}` : `${groupOf(contender)}-${model}`;

/** Models of a contender in its group. */
export function modelsOf(contender: Contender, model: string, apps: readonly string[]): PolicyModel[] {
  const group = groupOf(contender);
  const { timeoutFraction, name } = contender;
  const policy =
    timeoutFraction !== null
      ? "timeout"
      : name === EAGER.name
        ? EAGER.name
        : name === SESSIONS.name
          ? "deferred"
          : null;
  const policyOptions = timeoutFraction === null ? {} : { timeout_fraction: timeoutFraction };
  const names = new Set(apps.map((app) => modelOf(contender, model, app)));
  return [...names].map((each) => ({ name: each, group, policy, policyOptions }));
}
