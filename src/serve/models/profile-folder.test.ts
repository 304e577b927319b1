import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { modelSpec } from "../../../test/support/specs.js";
import { type ModelProfile, PROFILE_SCHEMA } from "./model-profile.js";
import { profileFolder } from "./profile-folder.js";
import { loadProfile, saveProfile } from "./profile-store.js";

let home: string;
beforeEach(() => {
  home = mkdtempSync(path.join(tmpdir(), "rubato-home-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));
const folderIn = (cache: string) => profileFolder({ XDG_CACHE_HOME: cache });
/** Files of another user can be made by root alone. */
const isRoot = process.getuid?.() === 0;

describe("the folder of profiles", () => {
  test("is made in the user's cache, for nobody else", () => {
    const { folder, problem } = folderIn(path.join(home, "cache"));
    expect(problem).toBeNull();
    expect(folder).toBe(path.join(home, "cache", "rubato", "profiles"));
    expect(lstatSync(folder!).mode & 0o777).toBe(0o700);
    expect(lstatSync(path.dirname(folder!)).mode & 0o777).toBe(0o700);
  });

  test("that others could write is ours alone again", () => {
    mkdirSync(path.join(home, "rubato", "profiles"), { recursive: true });
    chmodSync(path.join(home, "rubato"), 0o777);
    expect(folderIn(home).problem).toBeNull();
    expect(lstatSync(path.join(home, "rubato")).mode & 0o777).toBe(0o700);
  });

  test("is not behind a link", () => {
    mkdirSync(path.join(home, "victim", "profiles"), { recursive: true });
    symlinkSync(path.join(home, "victim"), path.join(home, "rubato"));
    expect(folderIn(home)).toEqual({ folder: null, problem: expect.stringContaining("it is a link") });
  });

  test("is not in a folder that everyone can write, unless only owners can there", () => {
    chmodSync(home, 0o777);
    expect(folderIn(home).problem).toContain("must not be writable by everyone");
    chmodSync(home, 0o1777);
    expect(folderIn(home).problem).toBeNull();
  });

  test.runIf(isRoot)("is not another user's, nor in another user's", () => {
    mkdirSync(path.join(home, "rubato", "profiles"), { recursive: true });
    chownSync(path.join(home, "rubato"), 12_345, 12_345);
    expect(folderIn(home).problem).toContain("it belongs to 12345");
    chownSync(path.join(home, "rubato"), 0, 0);
    chownSync(home, 12_345, 12_345);
    expect(folderIn(home).problem).toContain("it belongs to 12345");
  });

  test("where none can be made there is none, with a word", () => {
    writeFileSync(path.join(home, "file"), "");
    expect(folderIn(path.join(home, "file"))).toEqual({ folder: null, problem: expect.stringContaining("ENOTDIR") });
  });

  test("a relative cache is ignored", () => {
    expect(profileFolder({ XDG_CACHE_HOME: "cache", HOME: home }).folder ?? "").not.toContain(process.cwd());
    expect(existsSync("cache")).toBe(false);
  });
});

describe("files of profiles", () => {
  const environment = { cpuModel: "c", threads: 1, accelerators: 1, runtime: "r", modelBytes: 0 };
  const times = { p50Us: 10, p90Us: 10, p99Us: 10, runs: 3 };
  const spec = () => modelSpec({ name: "m", version: "1", folder: path.join(home, "gone", "m"), batchSizeMax: 1 });
  const profile = (): ModelProfile => ({
    schema: PROFILE_SCHEMA,
    model: "m",
    version: "1",
    batchMax: 1,
    environment,
    points: [{ extent: null, batchSize: 1, alone: times, busy: times }],
    fits: [],
    complete: true,
  });
  /** Where no folder beside the model can be made. */
  const cached = () => {
    writeFileSync(path.join(home, "gone"), "");
    return path.join(home, "kept");
  };

  test("a link in the place of a profile is replaced, not followed", () => {
    const cache = cached();
    const precious = path.join(home, "precious");
    writeFileSync(precious, "precious");
    mkdirSync(path.join(cache, "m", "1"), { recursive: true });
    const file = path.join(cache, "m", "1", "profile.json");
    symlinkSync(precious, file);
    symlinkSync(precious, `${file}.${process.pid}`);
    expect(saveProfile(spec(), profile(), cache)).toBe(file);
    expect(readFileSync(precious, "utf8")).toBe("precious");
    expect(lstatSync(file).isFile()).toBe(true);
    expect(loadProfile(spec(), environment, cache)?.staleness).toBeNull();
  });

  test("what is behind a link, or what everyone can write, is not read", () => {
    const cache = cached();
    const file = saveProfile(spec(), profile(), cache)!;
    chmodSync(file, 0o666);
    expect(loadProfile(spec(), environment, cache)).toBeNull();
    chmodSync(file, 0o644);
    const elsewhere = path.join(home, "elsewhere.json");
    writeFileSync(elsewhere, readFileSync(file));
    rmSync(file);
    symlinkSync(elsewhere, file);
    expect(loadProfile(spec(), environment, cache)).toBeNull();
  });

  test.runIf(isRoot)("what belongs to another user is not read", () => {
    const cache = cached();
    const file = saveProfile(spec(), profile(), cache)!;
    chownSync(file, 12_345, 12_345);
    expect(loadProfile(spec(), environment, cache)).toBeNull();
  });
});
