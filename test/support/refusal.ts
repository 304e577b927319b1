import { expect } from "vitest";
import { ConfigError } from "../../src/config/config-error.js";

/** What a configuration is refused with. */
export function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    expect(error.exitCode).toBe(2);
    return error.message;
  }
  throw new Error("was accepted");
}
