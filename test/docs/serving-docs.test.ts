/**
 * docs/errors.md and docs/metrics.md hold tables made from the code; this keeps them in step.
 * `RUBATO_UPDATE_DOCS=1 npx vitest run test/docs` writes the tables anew.
 */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { DROP_REASONS } from "../../src/core/outcome.js";
import {
  DROP_ENDINGS,
  type Ending,
  FAIL_ENDINGS,
  LATE_ENDING,
  REFUSALS,
  SERVED_CAUSES,
} from "../../src/serve/endings.js";
import { Metrics } from "../../src/serve/observation/metrics.js";
import { INFER_LIMIT_MEANINGS, INFER_LIMITS } from "../../src/wire/infer-limits.js";
import { ERROR_CODES } from "../../src/wire/serving-error.js";

const docs = path.resolve(import.meta.dirname, "../../docs");
const GRPC_NAMES: Readonly<Record<number, string>> = {
  1: "CANCELLED",
  3: "INVALID_ARGUMENT",
  4: "DEADLINE_EXCEEDED",
  5: "NOT_FOUND",
  6: "ALREADY_EXISTS",
  8: "RESOURCE_EXHAUSTED",
  12: "UNIMPLEMENTED",
  13: "INTERNAL",
  14: "UNAVAILABLE",
};

function compare(file: string, table: readonly string[]): void {
  const full = path.join(docs, file);
  const text = readFileSync(full, "utf8");
  const [before, , after] = text.split(/<!-- table:(?:begin|end) -->/) as [string, string, string];
  const expected = `${before}<!-- table:begin -->\n${table.join("\n")}\n<!-- table:end -->${after}`;
  if (process.env.RUBATO_UPDATE_DOCS === "1") writeFileSync(full, expected);
  else expect(text).toBe(expected);
}

function row(end: string, reason: string, counter: string, ending: Ending): string {
  const { http, grpc } = ERROR_CODES[ending.code];
  const retry = ending.retryAfter ? "yes" : "";
  return `| ${end} | \`${reason}\` | ${http} | ${GRPC_NAMES[grpc]} | ${retry} | ${counter} | ${ending.text} |`;
}

describe("documents of the server", () => {
  it("protocol.md: limits of one request", () => {
    compare("protocol.md", [
      "| what | at most |",
      "|---|---|",
      ...Object.entries(INFER_LIMITS).map(
        ([key, max]) => `| ${INFER_LIMIT_MEANINGS[key as keyof typeof INFER_LIMITS]} | ${max} |`,
      ),
    ]);
  });

  it("errors.md: cause, reason, HTTP status, gRPC code, counter", () => {
    const counter = (outcome: string, reason: string): string =>
      `\`rubato_requests_total{outcome="${outcome}",reason="${reason}"}\``;
    compare("errors.md", [
      "| end | reason | HTTP | gRPC | Retry-After | counter | meaning |",
      "|---|---|---|---|---|---|---|",
      ...DROP_REASONS.map((reason) => row("dropped", reason, counter("dropped", reason), DROP_ENDINGS[reason])),
      row("late", "late", counter("late", ""), LATE_ENDING),
      ...SERVED_CAUSES.map((cause) => row("failed", cause, counter("failed", cause), FAIL_ENDINGS[cause])),
      ...Object.entries(REFUSALS).map(([reason, ending]) =>
        row("refused", reason, `\`rubato_requests_refused_total{reason="${reason}"}\``, ending),
      ),
    ]);
  });

  it("metrics.md: every metric with its type and meaning", async () => {
    const metrics = new Metrics({
      models: () => [],
      accelerators: () => [],
      scaling: () => [],
      scheduler: () => ({
        turns: 0,
        stalls: 0,
        lagSumUs: 0,
        lagMaxUs: 0,
        dueTurns: 0,
        liveRequests: 0,
        liveBatches: 0,
      }),
    });
    metrics.ofModel("m");
    metrics.delaysOf("g");
    const text = await metrics.text();
    const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name!, type!]));
    const helps = [...text.matchAll(/^# HELP (\S+) (.*)$/gm)];
    expect(helps.length).toBeGreaterThan(20);
    for (const [, name] of helps) expect(name).toMatch(/^rubato_[a-z_]+$/);
    compare("metrics.md", [
      "| metric | type | meaning |",
      "|---|---|---|",
      ...helps.map(([, name, help]) => `| \`${name}\` | ${types.get(name!)} | ${help} |`),
    ]);
  });
});
