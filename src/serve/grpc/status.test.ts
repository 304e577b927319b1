import { expect, test } from "vitest";
import { ServingError } from "../../wire/serving-error.js";
import { statusOf } from "./status.js";

test("status: a long text is cut, and half a character never reaches the encoder", () => {
  const details = (text: string): string => statusOf(new ServingError("internal", text)).details;
  expect(details("späß 👍")).toBe("späß 👍");
  expect(details("x".repeat(1025))).toBe(`${"x".repeat(1024)}…`);
  const cut = details(`${"x".repeat(1023)}👍 and more`);
  expect(cut).toBe(`${"x".repeat(1023)}\ufffd…`);
  expect(() => encodeURI(cut)).not.toThrow();
});
