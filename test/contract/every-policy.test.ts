/**
 * What every policy keeps, whatever comes: see the checks in ../support/chaos-driver.ts. A failure prints the setting
 * and the seed, which suffice to replay it.
 */
import { describe, expect, test } from "vitest";
import { POLICY_NAMES } from "../../src/policies/registry.js";
import { ChaosDriver, type ChaosOptions, variantsOf } from "../support/chaos-driver.js";

const NETWORKS = {
  none: { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 },
  symphony: { controlUs: 100, dataUsPerRequest: 50, responseUs: 2000 },
};
const SEEDS = Array.from({ length: 25 }, (_, index) => index + 1);

describe.each(POLICY_NAMES)("contract: %s", (policy) => {
  for (const { options: policyOptions, feasible, punctual, estimates, sendsAhead = false } of variantsOf(policy)) {
    for (const [networkName, network] of Object.entries(NETWORKS)) {
      const name = `${JSON.stringify(policyOptions)}, network ${networkName}`;
      const runOf = (rest: Pick<ChaosOptions, "seed" | "exact" | "actions"> & Partial<ChaosOptions>): ChaosDriver => {
        const driver = new ChaosDriver({
          policy,
          policyOptions,
          network,
          feasible: feasible && rest.exact,
          punctual,
          estimates,
          sendsAhead,
          ...rest,
        });
        driver.run();
        return driver;
      };

      test(`as profiled: protocol, conservation, no start after a deadline, no plan past one (${name})`, () => {
        const total = { finished: 0, dispatched: 0 };
        for (const seed of SEEDS) {
          const { counts } = runOf({ seed, exact: true, actions: 600, load: seed % 3 === 0 ? 3 : 1 });
          total.finished += counts.finished;
          total.dispatched += counts.dispatched;
        }
        expect(total.finished).toBeGreaterThan(1000);
        expect(total.dispatched).toBeGreaterThan(500);
      });

      test(`slow, early, late, failing accelerators: protocol and conservation (${name})`, () => {
        let late = 0;
        for (const seed of SEEDS)
          late += runOf({ seed, exact: false, actions: 600, load: seed % 3 === 0 ? 3 : 1 }).counts.late;
        expect(late).toBeGreaterThan(0);
      });

      test(`many events at one moment: protocol and conservation (${name})`, () => {
        for (const seed of SEEDS) runOf({ seed, exact: seed % 2 === 0, actions: 400, gridUs: 2500, feasible: false });
      });

      test(`same events, same commands (${name})`, () => {
        for (const seed of SEEDS.slice(0, 5)) {
          const digest = () =>
            new ChaosDriver({
              policy,
              policyOptions,
              network,
              feasible: false,
              punctual,
              estimates,
              seed,
              exact: false,
              actions: 500,
            }).run();
          expect(digest()).toBe(digest());
        }
      });
    }
  }
});
