import path from "node:path";
import { describe, expect, it } from "vitest";
import { PROFILER_DEFAULTS } from "../../core/shadow/profiler.js";
import { parseSource } from "../source.js";
import { loadServerConfig, serverConfigFrom } from "./server.js";

const machine = { cpus: 8, folder: "/srv/project" };
const read = (text: string, overrides = {}) =>
  serverConfigFrom(parseSource(text, "etc/rubato.config.yaml"), "/srv/project/etc", machine, overrides);

describe("server configuration", () => {
  it("needs no file", () => {
    const config = loadServerConfig(null, machine);
    expect(config.modelsDir).toBe(path.resolve("/srv/project/models"));
    expect([config.http.port, config.grpc?.port, config.http.host]).toEqual([8000, 8001, "127.0.0.1"]);
    expect(config.tracing).toBeNull();
    expect(config.eventLog).toBeNull();
    expect(config.scheduler.idleDispatch).toBe(true);
  });
  it("starts with defaults on a machine of one CPU", () => {
    expect(loadServerConfig(null, { cpus: 1, folder: "/" }).groups[0]!.threads).toBe(1);
  });
  it("keeps the defaults beside a key that is given", () => {
    const config = read("http: {port: 9000}\n");
    expect(config.http).toMatchObject({
      host: "127.0.0.1",
      port: 9000,
      bodyMaxBytes: 64 * 1024 * 1024,
      inFlightMax: 8192,
    });
    expect(config.grpc?.port).toBe(8001);
  });
  it("resolves paths of the file from its folder and flags from the working folder", () => {
    expect(read("models: ../m\nevent_log: {file: e.log}\n").modelsDir).toBe("/srv/project/m");
    expect(read("event_log: {file: e.log}\n").eventLog).toEqual({
      file: "/srv/project/etc/e.log",
      maxBytes: 1024 ** 3,
    });
    expect(read("models: ../m\n", { models: "here" }).modelsDir).toBe("/srv/project/here");
  });
  it("flags win over the file, and a gRPC port opens the door", () => {
    const config = read("http: {port: 1}\ngrpc: {enabled: false}\n", { httpPort: 0, grpcPort: 0, host: "0.0.0.0" });
    expect(config.http).toMatchObject({ port: 0, host: "0.0.0.0" });
    expect(config.grpc).toMatchObject({ port: 0, host: "0.0.0.0" });
    expect(read("grpc: {enabled: false}\n").grpc).toBeNull();
  });
  it("runs requests again to learn from, but for a scheduler on many threads, and where it is told not to", () => {
    const profiler = (keys: string) => read(`scheduler: {${keys}}\n`).scheduler.profiler;
    expect(profiler("")).toEqual(PROFILER_DEFAULTS);
    expect(profiler("profiler: {request_share: 0.5}")).toEqual({ ...PROFILER_DEFAULTS, requestShare: 0.5 });
    for (const keys of [
      "profiler: false",
      "profiler: {time_share: 0}",
      "threads: 2",
      "threads: 2, profiler: false",
      "threads: 2, profiler: {time_share: 0}",
    ])
      expect(profiler(keys), keys).toBeNull();
    expect(() => profiler("profiler: true")).toThrow(/scheduler\.profiler.*must be .*false; was true/);
    expect(() => profiler("profiler: {time_share: 0.5}")).toThrow(
      /scheduler\.profiler\.time_share.*at most 0\.01; was 0\.5/,
    );
  });

  it("says what a scheduler on many threads cannot do", () => {
    expect(read("scheduler: {threads: 2}\n").scheduler).toMatchObject({ threads: 2 });
    expect(() => read("scheduler: {threads: 2}\nevent_log: {file: e.log}\n")).toThrow(
      /event_log.*must be absent where scheduler.threads is 2.*was e\.log/,
    );
    expect(() => read("scheduler: {threads: 2, profiler: {time_share: 0.01}}\n")).toThrow(
      /scheduler.profiler.*must be false or absent where scheduler.threads is 2.*was .*0\.01/,
    );
    expect(() => read("scheduler: {thread: true}\n")).toThrow("scheduler.thread: unknown key; did you mean threads?");
    expect(() => read("scheduler: {threads: 65}\n")).toThrow(/scheduler.threads.*64/);
  });
  it("placement has defaults for all but its groups; without it every model says its group", () => {
    expect(read("drain_s: 1\n").placement).toBeNull();
    const { placement } = read("groups: {a: {kind: emulated}, b: {kind: emulated}}\nplacement: {groups: [a, b]}\n");
    expect(placement).toEqual({
      groups: ["a", "b"],
      epochUs: 300_000_000,
      movesMax: 4,
      load: "busy",
      loadImbalanceMax: 0.2,
      memoryImbalanceMax: Number.POSITIVE_INFINITY,
      gainMin: 0.02,
      rateRpsMax: null,
      memoryMbMax: null,
      memoryWeight: 0.1,
      timeLimitUs: 2_000_000,
    });
  });
  it("shares the CPU threads out: explicit ones first, the rest in equal parts", () => {
    const { groups } = read(
      "groups: {a: {count: 2, threads: 1}, b: {count: 3}, e: {kind: emulated, count: 2, scales: [1, 5]}}\n",
    );
    expect(groups.map(({ name, threads }) => [name, threads])).toEqual([
      ["a", 1],
      ["b", 2],
      ["e", 1],
    ]);
    expect(groups[2]!.scales).toEqual([1, 5]);
    expect(groups[0]!.scales).toEqual([1, 1]);
  });
  it("advises by default, and makes room for the most that a group which acts may have", () => {
    const { groups } = read(
      "cpu_threads: 8\ngroups: {a: {count: 2, autoscale: {act: true, max: 4}}, e: {kind: emulated, count: 3}}\n",
    );
    expect(groups.map(({ count, threads }) => [count, threads])).toEqual([
      [4, 2],
      [3, 1],
    ]);
    expect(groups[0]!.autoscale).toMatchObject({ act: true, start: 2, options: { min: 1, max: 4 }, keepWarmUs: 60e6 });
    expect(groups[1]!.autoscale).toMatchObject({ act: false, start: 3, options: { max: 65_536, intervalUs: 10e6 } });
  });
});
