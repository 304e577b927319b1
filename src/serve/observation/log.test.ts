import { expect, it } from "vitest";
import { ServingError } from "../../wire/serving-error.js";
import { errorFields } from "./log.js";

it("log: what a model's files say wrong is told once, without a stack; a fault of ours keeps its own", () => {
  const cause = new Error("m/rubato.yaml:1: slo: unknown key");
  expect(errorFields(new ServingError("invalid-argument", cause.message, { cause }))).toEqual({
    type: "ServingError",
    code: "invalid-argument",
    message: "m/rubato.yaml:1: slo: unknown key",
  });
  expect(errorFields(new ServingError("internal", "worker lost", {}))).toMatchObject({
    stack: expect.stringContaining("log.test"),
  });
});
