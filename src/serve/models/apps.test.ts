import pino from "pino";
import { describe, expect, test } from "vitest";
import { PLAIN } from "../../core/tables/request-table.js";
import type { ParameterValue } from "../gateway.js";
import { Apps } from "./apps.js";

function create() {
  const lines: { level: number; app: string; kind?: number; limit?: number }[] = [];
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  const beyondLimit = { value: 0 };
  return { apps: new Apps("m", beyondLimit as never, log), beyondLimit, lines };
}

test("apps: kinds from 1 as names come, declared ones first; a name has its kind whatever is declared later", () => {
  const { apps, lines } = create();
  apps.declare(["chat", "search"]);
  const kinds = (...names: string[]) => names.map((name) => apps.traitsOf(name).kind);
  expect(kinds("mail", "search", "chat", "mail")).toEqual([3, 2, 1, 3]);
  apps.declare(["later", "mail"]);
  expect(kinds("chat", "mail", "later")).toEqual([1, 3, 4]);
  expect([0, 1, 4, 5].map((kind) => apps.nameOf(kind))).toEqual(["", "chat", "later", ""]);
  expect(lines.map(({ app, kind }) => [app, kind])).toEqual([
    ["chat", 1],
    ["search", 2],
    ["mail", 3],
    ["later", 4],
  ]);
  expect(apps.traitsOf("chat")).toEqual({ ...PLAIN, kind: 1 });
});

test("apps: a request that names none is plain, and takes no kind", () => {
  const { apps, lines } = create();
  expect(apps.traitsOf(undefined)).toBe(PLAIN);
  expect(lines).toEqual([]);
});

test("apps: 255 have kinds; each request of a further one is counted as the default app's, one line says so", () => {
  const { apps, beyondLimit, lines } = create();
  for (let app = 1; app <= 255; app++) expect(apps.traitsOf(`app ${app}`).kind).toBe(app);
  expect(beyondLimit.value).toBe(0);
  for (const app of ["one more", "another", "one more"]) expect(apps.traitsOf(app)).toBe(PLAIN);
  expect(apps.traitsOf("app 255").kind).toBe(255);
  expect(beyondLimit.value).toBe(3);
  expect(lines.slice(255).map(({ level, app, limit }) => [level, app, limit])).toEqual([[40, "one more", 255]]);
  apps.declare(["declared too late"]);
  expect([beyondLimit.value, lines.length]).toEqual([3, 256]);
});

describe("apps: a name is 1 to 64 printable characters", () => {
  const { apps } = create();
  const fine = ["a", "x".repeat(64), "мобильный поиск", "𝕏".repeat(64), "__proto__", "é"];
  for (const app of fine) test(`takes ${app}`, () => expect(apps.traitsOf(app).kind).toBeGreaterThan(0));
  const wrong: [ParameterValue, string][] = [
    ["", 'the string ""'],
    ["x".repeat(65), `the string "${"x".repeat(40)}…"`],
    ["a\nb", 'the string "a\\nb"'],
    ["a\u2028b", 'the string "a\u2028b"'],
    ["\u0000", 'the string "\\u0000"'],
    ["\ud800", 'the string "\\ud800"'],
    [5, "5"],
    [true, "true"],
  ];
  for (const [app, was] of wrong)
    test(`refuses ${was}`, () => {
      const text = `parameter 'app' must be a text of 1 to 64 printable characters; was ${was}`;
      expect(() => apps.traitsOf(app)).toThrow(expect.objectContaining({ code: "invalid-argument", message: text }));
    });
});
