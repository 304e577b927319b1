import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { renderReference } from "./reference.js";

describe("configuration reference", () => {
  const files = [...renderReference()];
  it.each(files)("docs/%s is what scripts/gen-docs.mjs writes", (name, text) => {
    expect(existsSync(`docs/${name}`)).toBe(true);
    expect(readFileSync(`docs/${name}`, "utf8")).toBe(text);
  });
  it("no schema is left over", () => {
    const made = files.map(([name]) => name).filter((name) => name.startsWith("schemas/"));
    expect(
      readdirSync("docs/schemas")
        .map((name) => `schemas/${name}`)
        .sort(),
    ).toEqual(made.sort());
  });
  it("every key of every schema says what it means", () => {
    const undescribed: string[] = [];
    const walk = (node: unknown, path: string): void => {
      if (node === null || typeof node !== "object") return;
      const { properties } = node as { properties?: Record<string, { description?: string }> };
      for (const [key, property] of Object.entries(properties ?? {})) {
        if (!property.description) undescribed.push(`${path}.${key}`);
      }
      for (const [key, child] of Object.entries(node)) walk(child, key === "properties" ? path : `${path}.${key}`);
    };
    for (const [name, text] of files) if (name.endsWith(".json")) walk(JSON.parse(text), name);
    expect(undescribed).toEqual([]);
  });
});
