/** Steps of pipelines in their threads: what they do wrong fails one request, by name; fan-outs, branches and defaults with values. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parsePipelineFile } from "../../src/config/server/pipelines/pipeline-file.js";
import { readPipelineFile } from "../../src/serve/repository/pipeline-reader.js";
import { encodeFrame } from "../../src/wire/frames.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";
import { type Ended, FakeServer, group, modelSpec } from "../fakes/fake-server.js";
import { fp32 } from "../support/specs.js";

const FP = "{ datatype: FP32, shape: [-1, 1] }";
const LIST = "{ datatype: FP32, shape: [1, 1], list: true }";

let folder: string;
let fake: FakeServer;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-steps-"));
});
afterEach(async () => {
  rmSync(folder, { recursive: true, force: true });
  expect(fake.broken).toBeNull();
  expect(fake.extraAnswers).toBe(0);
  await fake.stop();
  expect(fake.server.pipelines.live).toBe(0);
  for (const row of fake.server.pipelines.pipelines()) expect(row).toMatchObject({ inFlight: 0, bytes: 0 });
});

async function serve(file: string, steps: string, modelControl: "none" | "explicit" = "none"): Promise<void> {
  writeFileSync(path.join(folder, "s.mjs"), steps);
  const model = (name: string) =>
    modelSpec({ name, group: name, policy: "eager", emulated: { alphaMs: 0, betaMs: 1, tableMs: null } });
  fake = new FakeServer([model("a"), model("b")], [group(1, { name: "a" }), group(1, { name: "b" })], {
    modelControl,
    pipelines: {
      pipelines: () => ["p"],
      isPipeline: (name) => name === "p",
      readPipeline: () => ({ folder, read: parsePipelineFile(`slo_ms: 20000\n${file}`, "p/pipeline.yaml") }),
    },
  });
  await fake.start();
}

const infer = (values: readonly number[]): Promise<Ended> =>
  fake.infer({ model: "p", inputs: [fp32("x", [values.length, 1], values)] });
const floats = (tensor: Tensor): number[] => [...new Float32Array(new Uint8Array(tensor.data).buffer)];
const answer = ({ reply, error }: Ended): number[] => {
  expect(error).toBeNull();
  return floats(reply!.outputs[0]!);
};
const parts = (module: string, outcome: string): Promise<number> =>
  fake.metric("rubato_pipeline_parts_total", [`module="${module}"`, `outcome="${outcome}"`]);

describe("a step", () => {
  const ONE = `
modules:
  - { id: 0, name: work, step: ./s.mjs, takes: { x: ${FP} }, gives: { y: ${FP} } }
`;

  test("gets tensors, gives tensors, and what it does wrong fails its request alone, with its name and cause", async () => {
    const limits = "steps: { threads: 1, timeout_ms: 1000, memory_mb: 32 }\n";
    await serve(
      limits + ONE,
      `export default async function ({ x }) {
        switch (x.data[0]) {
          case 1: throw new Error("no such page");
          case 2: throw Object.assign(new Error("not an image"), { code: "invalid-argument" });
          case 3: for (;;);
          case 4: return new Promise(() => {});
          case 5: { const all = []; for (;;) all.push(new Array(4e6).fill(1.5)); }
          case 6: process.exit(3);
          case 7: return { y: { shape: [2, 1], data: [1] } };
          case 8: return { y: { shape: [1, 2], data: [1, 2] } };
          case 9: return { z: 1 };
          case 10: setImmediate(() => { throw new Error("behind its back"); }); return new Promise(() => {});
          case 11: return { y: { shape: [1, 1], data: new Float64Array(1) } };
          case 12: return undefined;
          case 13: throw Object.create(null);
          case 14: throw Object.assign(new Error(), { message: 5 });
          case 15: throw { get code() { throw 1; } };
          case 16: return { y: { shape: [1, 1], data: [NaN] } };
          case 17: { const data = new Float32Array(1); structuredClone(data, { transfer: [data.buffer] }); return { y: { shape: [1, 1], data } }; }
          default: return { y: { shape: x.shape, data: x.data.map((each) => 2 * each) } };
        }
      }`,
    );
    expect(answer(await infer([20, 21]))).toEqual([40, 42]);
    const wrong: [number, string, string, RegExp][] = [
      [1, "internal", "model-error", /the step failed: no such page$/],
      [2, "invalid-argument", "invalid-argument", /the step refused the request: not an image$/],
      [3, "unavailable", "worker-hung", /the step hung, .*: took more than 1000 ms \(steps\.timeout_ms\)$/],
      [4, "unavailable", "worker-hung", /took more than 1000 ms/],
      [5, "unavailable", "worker-crashed", /the step's thread ended: needed more than 32 MiB \(steps\.memory_mb\)$/],
      [6, "unavailable", "worker-crashed", /the step's thread ended: exit code 3$/],
      [7, "internal", "model-error", /data of output 'y' must have 2 elements for shape \[2,1\], got 1$/],
      [8, "internal", "model-error", /output 'y' must be FP32 \[-1,1\]; was of shape \[1,2\]$/],
      [9, "internal", "model-error", /must return what it gives \(y\); returned 'z', too$/],
      [10, "unavailable", "worker-crashed", /the step's thread ended: behind its back$/],
      [
        11,
        "internal",
        "model-error",
        /data of output 'y' must be an array or Float32Array for FP32; was Float64Array$/,
      ],
      [12, "internal", "model-error", /must return an object of tensors by name; returned undefined$/],
      [13, "internal", "model-error", /the step failed: what was thrown has no text$/],
      [14, "internal", "model-error", /the step failed: 5$/],
      [15, "internal", "model-error", /the step failed: \[object Object\]$/],
      [16, "internal", "model-error", /\(NaN and infinities: return a Float32Array\) for datatype FP32, got NaN$/],
      [
        17,
        "internal",
        "model-error",
        /data of output 'y' must have its bytes; its buffer was given away \(transfer, postMessage\)$/,
      ],
    ];
    for (const [value, code, reason, says] of wrong) {
      // What waits behind it is served by the thread that takes its place.
      const [bad, good] = await Promise.all([infer([value]), infer([100])]);
      expect(bad.error, `${value}`).toMatchObject({ code, details: { reason, module: "work" } });
      expect(bad.error!.message).toMatch(/^pipeline 'p': module 'work': step '\.\/s\.mjs': /);
      expect(bad.error!.message).toMatch(says);
      expect(answer(good)).toEqual([200]);
    }
    expect(await parts("work", "failed")).toBe(wrong.length);
    expect(await parts("work", "finished")).toBe(wrong.length + 1);
    // What truly failed is counted apart from what clients got wrong.
    for (const reason of ["model-error", "invalid-argument"])
      expect(await fake.metric("rubato_pipeline_requests_total", [`reason="${reason}"`])).toBe(
        wrong.filter(([, , why]) => why === reason).length,
      );
    const exits = (cause: string) =>
      fake.metric("rubato_pipeline_step_exits_total", ['pipeline="p"', `cause="${cause}"`]);
    const ended = (cause: string) => wrong.filter(([, , reason]) => reason === cause).length;
    for (const cause of ["worker-hung", "worker-crashed"]) expect(await exits(cause)).toBe(ended(cause));
  });

  test("what an earlier run left behind ends its thread, and fails no other's run", async () => {
    // The thread waits in the middle of the next run when the timer of the one before throws, or ends it.
    await serve(
      `steps: { threads: 1 }\n${ONE}`,
      `import { threadId } from "node:worker_threads";
      const late = (end) => setTimeout(end, 50);
      export default async function ({ x }) {
        switch (x.data[0]) {
          case 1: late(() => { throw new Error("behind its back"); }); break;
          case 2: late(() => process.exit(3)); break;
          case 3: late(() => Promise.reject(new Error("nobody waits"))); break;
          case 4: late(() => { throw new Error("its own"); }); return new Promise(() => {});
          default: await new Promise((go) => setTimeout(go, 500));
        }
        return { y: { shape: [1, 1], data: [threadId] } };
      }`,
    );
    for (const left of [1, 2, 3]) {
      const [before, after] = await Promise.all([infer([left]), infer([0])]);
      const [ended, next] = [answer(before)[0]!, answer(after)[0]!];
      expect(next, `${left}`).not.toBe(ended);
    }
    const own = await infer([4]);
    expect(own.error).toMatchObject({ code: "unavailable", details: { reason: "worker-crashed" } });
    expect(own.error!.message).toMatch(/the step's thread ended: its own$/);
    expect(answer(await infer([0]))).toHaveLength(1);
    expect(await fake.metric("rubato_pipeline_step_exits_total", ['pipeline="p"', 'cause="worker-crashed"'])).toBe(4);
  });

  test("a run whose thread is ended by others twice is not begun a third time, and is told whose it was", async () => {
    await serve(
      `steps: { threads: 1 }\n${ONE}`,
      `setTimeout(() => { throw new Error("at load"); }, 300);
      export default ({ x }) => x.data[0] === 1 ? new Promise(() => {}) : { y: x };`,
    );
    const { error } = await infer([1]);
    expect(error).toMatchObject({ code: "unavailable", details: { reason: "worker-crashed" } });
    expect(error!.message).toMatch(/the step's thread ended: at load \(left behind when steps were loaded\)$/);
  });

  test("what it says to the thread that started it is heard by nobody, and its port is not to be had", async () => {
    await serve(
      ONE,
      `import { parentPort, workerData } from "node:worker_threads";
      export default ({ x }) => {
        for (const said of [null, "hi", { kind: "ready" }, { kind: "unloadable", message: "m" }]) parentPort.postMessage(said);
        parentPort.postMessage({ kind: "done", run: 12345, startedAt: 0, finishedAt: 1, outputs: [] });
        parentPort.postMessage({ kind: "failed", run: 12345, code: "x", message: "y" });
        return { y: { shape: [1, 1], data: ["port" in workerData ? 1 : 0] } };
      }`,
    );
    for (let each = 0; each < 4; each++) expect(answer(await infer([7]))).toEqual([0]);
  });

  // Five in a minute would be a habit.
  test.each<[string, [number, RegExp][]]>([
    [
      "by what it does",
      [
        [1, /signal SIG(ABRT|TRAP|ILL)/],
        [2, /signal SIGKILL/],
      ],
    ],
    [
      "by what it says",
      [
        [3, /its channel broke: frame stream is corrupt: bad prefix$/],
        [4, /signal SIGKILL/],
        [5, /it said what no process of steps says$/],
      ],
    ],
  ])("what ends a whole process ends that of its pipeline, and another takes its place: %s", async (_, wrong) => {
    const said = { kind: "failed", thread: 0, life: 1, run: 12345, code: "internal", message: "m" };
    const forged = Buffer.concat(
      [0, 1].flatMap((thread) =>
        [1, 2].flatMap((life) => encodeFrame(1, Buffer.from(JSON.stringify({ ...said, thread, life })), [])),
      ),
    );
    await serve(
      `steps: { threads: 2, timeout_ms: 5000, memory_mb: 32 }\n${ONE}`,
      `import { closeSync, writeSync } from "node:fs";
      export default async ({ x }) => {
        switch (x.data[0]) {
          case 1: return new Array(2 ** 26).fill({})[5];
          case 2: process.kill(process.pid, "SIGKILL"); return new Promise(() => {});
          case 3: writeSync(3, "this is no frame of anybody's"); return new Promise(() => {});
          case 5: writeSync(3, Buffer.from(${JSON.stringify([...forged])})); return new Promise(() => {});
          case 4: closeSync(3); return new Promise(() => {});
          default: return { y: { shape: [1, 1], data: [process.pid] } };
        }
      }`,
    );
    const pids = [answer(await infer([0]))[0]!];
    expect(pids[0]).not.toBe(process.pid);
    for (const [value, says] of wrong) {
      const { error } = await infer([value]);
      expect(error, `${value}`).toMatchObject({
        code: "unavailable",
        details: { reason: "worker-crashed", module: "work" },
      });
      expect(error!.message).toMatch(/the step's thread ended: the process of the pipeline's steps ended: /);
      expect(error!.message).toMatch(says);
      pids.push(answer(await infer([0]))[0]!);
    }
    expect(new Set(pids).size).toBe(pids.length);
  });

  test("a step that nothing interrupts keeps neither its pipeline nor the end of the server waiting", async () => {
    const fifo = path.join(folder, "fifo");
    execFileSync("mkfifo", [fifo]);
    await serve(
      `steps: { threads: 1, timeout_ms: 200 }\n${ONE}`,
      `import { readFileSync } from "node:fs";
      export default ({ x }) => {
        if (x.data[0] === 1) readFileSync(${JSON.stringify(fifo)});
        if (x.data[0] === 2) process.kill(process.pid, "SIGSTOP");
        return { y: { shape: [1, 1], data: [process.pid] } };
      };`,
    );
    const pids: number[] = [];
    // The third finds two threads that could not be ended: then the process is.
    for (let each = 0; each < 3; each++) {
      expect((await infer([1])).error).toMatchObject({ details: { reason: "worker-hung" } });
      pids.push(answer(await infer([0]))[0]!);
    }
    expect(pids[0]).not.toBe(pids[2]);
    // Nor does a process that says nothing any more.
    expect((await infer([2])).error).toMatchObject({ details: { reason: "worker-hung" } });
    pids.push(answer(await infer([0]))[0]!);
    expect(pids[3]).not.toBe(pids[2]);
    expect((await infer([1])).error).toMatchObject({ details: { reason: "worker-hung" } });
    await fake.server.pipelines.close();
    expect(() => process.kill(pids[3]!, 0)).toThrow("ESRCH");
  });

  test("a client is told at its deadline, whatever the step does; one that cannot be in time is not begun", async () => {
    await serve(
      `steps: { threads: 1, timeout_ms: 400 }\n${ONE.replace("gives", "time_ms: 0.1, gives")}`,
      "export default ({ x }) => { if (x.data[0] === 1) for (;;); return { y: x }; };",
    );
    const call = (value: number, timeoutMs: number) =>
      fake.infer({ model: "p", inputs: [fp32("x", [1, 1], [value])], timeoutMs });
    const [late, behind] = await Promise.all([call(1, 100), call(2, 200)]);
    expect(late.error).toMatchObject({ code: "deadline-exceeded", details: { reason: "late", module: "work" } });
    expect(behind.error).toMatchObject({
      code: "deadline-exceeded",
      details: { reason: expect.stringMatching(/^(infeasible|expired)$/), module: "work" },
    });
    expect(answer(await infer([3]))).toEqual([3]);
  });

  test("is loaded with its pipeline and replaced when that is loaded again; one that cannot be loaded changes nothing", async () => {
    await serve(ONE, "export default ({ x }) => ({ y: { shape: [1, 1], data: [1] } });", "explicit");
    await fake.server.load("p", {});
    expect(answer(await infer([0]))).toEqual([1]);
    const write = (text: string): void => writeFileSync(path.join(folder, "s.mjs"), text);
    write("export default ({ x }) => ({ y: { shape: [1, 1], data: [2] } });");
    expect(answer(await infer([0]))).toEqual([1]);
    await fake.server.load("p", {});
    expect(answer(await infer([0]))).toEqual([2]);
    const broken: [string, string][] = [
      ["export const other = 1;", "step './s.mjs' must export a function 'default'; exports other"],
      ["export default 3;", "step './s.mjs' must export a function 'default'; exports it as 3"],
      ["throw new Error('not today');", "step './s.mjs' cannot be loaded: not today"],
      ["throw Object.create(null);", "step './s.mjs' cannot be loaded: what was thrown has no text"],
      [
        "process.kill(process.pid, 'SIGKILL');",
        "step './s.mjs' ended its process: signal SIGKILL, as where the system has no memory left, or by hand",
      ],
      ["process.exit(4);", "step './s.mjs' ended its thread: exit code 4"],
      [
        "await new Promise(() => {}); export default 1;",
        "step './s.mjs' ended its thread: exit code 13 (an await at the top of a module never settles)",
      ],
    ];
    for (const [text, says] of broken) {
      write(text);
      await expect(fake.server.load("p", {})).rejects.toMatchObject({ code: "invalid-argument", message: says });
      expect(fake.server.repositoryIndex(false).find(({ name }) => name === "p")).toMatchObject({
        state: "READY",
        reason: says,
      });
      expect(answer(await infer([0]))).toEqual([2]);
    }
  });

  test("a thread or process that takes another's place runs what was loaded, whatever has become of the file", async () => {
    const code = (version: number): string => `
      export default async ({ x }) => {
        if (x.data[0] === 1) process.exit(3);
        if (x.data[0] === 2) process.kill(process.pid, "SIGKILL");
        return x.data[0] === 0 ? { y: { shape: [1, 1], data: [${version}] } } : new Promise(() => {});
      };`;
    await serve(`steps: { threads: 1 }\n${ONE}`, code(1), "explicit");
    await fake.server.load("p", {});
    expect(answer(await infer([0]))).toEqual([1]);
    const file = path.join(folder, "s.mjs");
    for (const change of [() => writeFileSync(file, code(2)), () => rmSync(file)]) {
      change();
      for (const end of [1, 2]) {
        expect((await infer([end])).error).toMatchObject({ details: { reason: "worker-crashed" } });
        expect(answer(await infer([0]))).toEqual([1]);
      }
    }
    writeFileSync(file, code(3));
    await fake.server.load("p", {});
    expect(answer(await infer([0]))).toEqual([3]);
  });

  test("its queue has a limit, and every request is answered", async () => {
    await serve(
      `steps: { threads: 1, queue_max: 1 }\n${ONE}`,
      "export default async ({ x }) => { await new Promise((go) => setTimeout(go, 20)); return { y: x }; };",
    );
    const all = await Promise.all(Array.from({ length: 20 }, (_, value) => infer([value])));
    const full = all.filter(({ error }) => error !== null);
    // What comes at once is looked at once: one of them waits.
    expect(all.length - full.length).toBeGreaterThanOrEqual(1);
    for (const { error } of full) {
      expect(error).toMatchObject({ code: "resource-exhausted", details: { reason: "queue-full", module: "work" } });
      expect(error!.message).toContain("the step's queue holds its limit of runs: must be at most 1 runs");
    }
  });

  test("that breaks what JavaScript comes with has its thread replaced, and fails no other's run", async () => {
    const breaks = [
      "Array.prototype.map = null",
      "Object.fromEntries = null",
      "Array.prototype.flatMap = Array.prototype.every = Array.isArray = () => { throw 1; }",
      "globalThis.Uint8Array = null",
      "Object.prototype.datatype = 'FP64'",
    ];
    await serve(
      `steps: { threads: 1 }\n${ONE}`,
      `const breaks = [() => {}, ${breaks.map((each) => `() => { ${each}; }`).join(", ")}];
      export default ({ x }) => { const { data } = x; breaks[data[0]](); return { y: { shape: [1, 1], data } }; };`,
    );
    for (const which of breaks.keys()) {
      // Whether it is answered itself lies in what it broke.
      const [, ...others] = await Promise.all([infer([which + 1]), infer([0]), infer([0])]);
      for (const other of others) expect(answer(other), breaks[which]).toEqual([0]);
    }
    expect(answer(await infer([0]))).toEqual([0]);
  });

  test("a file that breaks it is not loaded", async () => {
    await serve(ONE, "Array.prototype.map = null; export default ({ x }) => ({ y: x });", "explicit");
    await expect(fake.server.load("p", {})).rejects.toThrow(
      "step './s.mjs' cannot be loaded beside others: what JavaScript comes with was changed",
    );
  });

  test("a list with holes fails its request alone: the process goes on with the others", async () => {
    await serve(
      `steps: { threads: 2, timeout_ms: 5000 }
modules:
  - { id: 0, name: work, step: ./s.mjs, takes: { x: ${FP} }, gives: { all: ${LIST}, y: ${FP}, b: { datatype: BYTES, shape: [-1] } } }
outputs: { y: { module: work, tensor: y } }
`,
      `export default async ({ x }) => {
        const [which] = x.data;
        if (which === 0) await new Promise((go) => setTimeout(go, 500));
        return { y: x, all: which === 1 ? new Array(3) : [], b: { shape: [which === 2 ? 3 : 0], data: which === 2 ? new Array(3) : [] } };
      };`,
    );
    const [good, list, bytes] = await Promise.all([infer([0]), infer([1]), infer([2])]);
    expect(list!.error!.message).toMatch(/output 'all'\[0\] must be a tensor \{ shape, data \}; was undefined$/);
    expect(bytes!.error!.message).toMatch(
      /element 0 of output 'b' must be text or Uint8Array for BYTES; was undefined$/,
    );
    expect(answer(good!)).toEqual([0]);
  });

  test("is a file of its pipeline's folder, also where links lead", () => {
    const own = path.join(folder, "own");
    const reading = (step: string) => () => {
      writeFileSync(
        path.join(folder, "pipeline.yaml"),
        `slo_ms: 10\nmodules:\n  - { id: 0, name: work, step: ${step}, takes: { x: ${FP} }, gives: { y: ${FP} } }\n`,
      );
      return readPipelineFile(path.dirname(folder), path.basename(folder));
    };
    const name = path.basename(folder);
    symlinkSync("/etc/hostname", path.join(folder, "linked.mjs"));
    expect(reading("./linked.mjs")).toThrow(
      `${name}/pipeline.yaml:3: modules[0].step: of module 0 (work) must stay inside the pipeline's folder, also where links lead; was ./linked.mjs`,
    );
    expect(reading("./none.mjs")).toThrow("must be a file in the pipeline's folder; there is no ./none.mjs");
    rmSync(path.join(folder, "pipeline.yaml"));
    mkdirSync(path.join(folder, "pipeline.yaml"));
    expect(() => readPipelineFile(path.dirname(folder), name)).toThrow(
      `${name}/pipeline.yaml: must be a plain file, no folder or pipe`,
    );
    rmdirSync(path.join(folder, "pipeline.yaml"));
    writeFileSync(`${own}.mjs`, "export default () => ({});");
    expect(reading("./own.mjs")().read.file.modules[0]!.step).toBe("./own.mjs");
    fake = new FakeServer([modelSpec()], [group(1)]);
    return fake.start();
  });
});

describe("a graph", () => {
  /** n parts of [n, ...]: each goes through a model, is doubled where it is above 5, and all are joined. */
  const PARTS = `
queue: { parts_max: 4 }
modules:
  - { id: 0, name: cut, step: "./s.mjs#cut", takes: { x: ${FP} }, gives: { list: ${LIST}, row: ${FP} } }
  - { id: 1, name: each, model: a, pres: [0], subs: [3, 2], fan_out: { module: cut, tensors: [list, row] }, inputs: { x: { module: cut, tensor: list } }, branch: { tensor: y, above: 5 } }
  - { id: 2, name: double, step: "./s.mjs#double", pres: [1], takes: { v: ${FP}, row: ${FP} }, inputs: { v: { module: each, tensor: y }, row: { module: cut, tensor: row } }, gives: { y: ${FP} } }
  - { id: 3, name: meet, model: b, pres: [1, 2], inputs: { x: [{ module: double, tensor: y }, { module: each, tensor: y }] } }
  - { id: 4, name: join, step: "./s.mjs#sum", pres: [3], join: true, takes: { all: ${FP}, items: ${LIST} }, inputs: { all: { module: meet, tensor: y }, items: { module: meet, tensor: y } }, gives: { y: ${FP}, count: { datatype: INT32, shape: [1] } } }
outputs: { y: { module: join, tensor: y }, count: { module: join, tensor: count } }
`;
  const STEPS = `
export const cut = ({ x }) => ({
  list: Array.from(x.data, (value) => ({ shape: [1, 1], data: [value] })),
  row: x.data[0] === -1 ? { shape: [9, 1], data: new Float32Array(9) } : x,
});
export const double = ({ v, row }) => {
  if (v.data[0] === 99) throw new Error("unlucky");
  return { y: { shape: [1, 1], data: [v.data[0] + row.data[0]] } };
};
export const sum = ({ all, items }) => ({ y: all, count: { shape: [1], data: [items.length] } });
`;

  test("parts by data, each by its own way, joined in their order; there may be none", async () => {
    await serve(PARTS, STEPS);
    const count = ({ reply }: Ended): number => new Int32Array(new Uint8Array(reply!.outputs[1]!.data).buffer)[0]!;
    const some = await infer([7, 1, 8, 5]);
    expect(answer(some)).toEqual([14, 1, 16, 5]);
    expect(count(some)).toBe(4);
    const none = await infer([]);
    expect(answer(none)).toEqual([]);
    expect(none.reply!.outputs[0]!.shape).toEqual([0, 1]);
    expect(count(none)).toBe(0);
    expect(answer(await infer([6]))).toEqual([12]);
    expect([await parts("each", "finished"), await parts("double", "finished")]).toEqual([5, 3]);
    const many = await Promise.all(Array.from({ length: 30 }, (_, value) => infer([value, 1])));
    for (const [value, each] of many.entries()) expect(answer(each)).toEqual([value > 5 ? 2 * value : value, 1]);
  });

  test("a model that joins no parts has no rows: the step's fault that made none, or the client's of its own rows", async () => {
    const meet = (pre: number): string =>
      `  - { id: 9, name: meet, model: b, pres: [${pre}], join: true, inputs: { x: { module: each, tensor: y } } }\n`;
    await serve(
      `
modules:
  - { id: 0, name: cut, step: "./s.mjs#cut", takes: { x: ${FP} }, gives: { list: ${LIST}, row: ${FP} } }
  - { id: 1, name: each, model: a, pres: [0], fan_out: { module: cut, tensors: [list] }, inputs: { x: { module: cut, tensor: list } } }
${meet(1)}`,
      STEPS,
    );
    expect(answer(await infer([7, 1]))).toEqual([7, 1]);
    const { error } = await infer([]);
    expect(error).toMatchObject({ code: "internal", details: { reason: "model-error", module: "meet" } });
    expect(error!.message).toBe(
      "pipeline 'p': module 'meet': input 'x', the parts together, must have at least 1 row, as a model takes; has none: no parts were made",
    );
  });

  test("a part that fails ends its request by name and calls its siblings off; too many parts, and unlike ones, by name", async () => {
    await serve(PARTS, STEPS);
    const bad = await infer([99, 1, 2, 3]);
    expect(bad.error).toMatchObject({ code: "internal", details: { reason: "model-error", module: "double" } });
    expect(bad.error!.message).toBe("pipeline 'p': module 'double': step './s.mjs#double': the step failed: unlucky");
    expect(await parts("join", "finished")).toBe(0);
    const many = await infer([1, 2, 3, 4, 5]);
    expect(many.error).toMatchObject({ code: "internal", details: { reason: "model-error", module: "each" } });
    expect(many.error!.message).toBe(
      "pipeline 'p': module 'each': a request must make at most 4 parts (queue.parts_max); makes 5 here",
    );
    const unlike = await infer([-1, 2]);
    expect(unlike.error!.message).toBe(
      "pipeline 'p': module 'each': fan_out: 'row' must have as many rows as 'list' (2); has 9",
    );
    expect(answer(await infer([1]))).toEqual([1]);
  });

  test("rows of the request itself are parts; too many are refused as the request comes", async () => {
    const file = `
queue: { parts_max: 2 }
modules:
  - { id: 0, name: each, model: a, fan_out: { tensors: [x] } }
  - { id: 1, name: join, step: "./s.mjs#sum", pres: [0], join: true, takes: { all: ${FP}, items: ${LIST} }, inputs: { all: { module: each, tensor: y }, items: { module: each, tensor: y } }, gives: { y: ${FP}, count: { datatype: INT32, shape: [1] } } }
`;
    await serve(file, STEPS);
    expect(answer(await infer([3, 4]))).toEqual([3, 4]);
    expect(fake.pool.runs.flatMap(({ batch }) => batch.members.map(([x]) => x!.shape))).toEqual([
      [1, 1],
      [1, 1],
    ]);
    expect((await infer([3, 4, 5])).error).toMatchObject({
      code: "invalid-argument",
      details: { module: "each", reason: "invalid-argument" },
    });
  });

  test("two fan-outs side by side: what ends a request at the first is told to its client alone, and nobody else is harmed", async () => {
    const join = (id: number, of: number, each: string): string =>
      `  - { id: ${id}, name: join${id}, step: "./s.mjs#sum", pres: [${of}], join: true, takes: { all: ${FP}, items: ${LIST} }, inputs: { all: { module: ${each}, tensor: y }, items: { module: ${each}, tensor: y } }, gives: { y: ${FP}, count: { datatype: INT32, shape: [1] } } }\n`;
    const file = `
queue: { parts_max: 4 }
modules:
  - { id: 0, name: each, model: a, fan_out: { tensors: [x] } }
  - { id: 1, name: other, model: a, fan_out: { tensors: [x] } }
${join(2, 0, "each")}${join(3, 1, "other")}outputs: { y: { module: join2, tensor: y }, z: { module: join3, tensor: y } }
`;
    await serve(file, STEPS);
    for (const [rows, module] of [
      [5, "each"],
      [3, "other"],
    ] as const) {
      const { error } = await infer(Array.from({ length: rows }, () => 1));
      expect(error).toMatchObject({ code: "invalid-argument", details: { module } });
      expect(answer(await infer([3, 4]))).toEqual([3, 4]);
    }
    expect(fake.server.pipelines.live).toBe(0);
  });

  test("a step routes by position; a position that is none fails its request", async () => {
    const side = (id: number, add: number): string =>
      `  - { id: ${id}, name: add${add}, step: "./s.mjs#add${add}", pres: [0], takes: { x: ${FP} }, inputs: { x: { tensor: x } }, gives: { y: ${FP} } }\n`;
    const file = `
modules:
  - { id: 0, name: route, step: "./s.mjs#route", subs: [1, 2, 3], takes: { x: ${FP} }, gives: { way: { datatype: INT64, shape: [2] } }, branch: { tensor: way, element: 1 } }
${side(1, 10)}${side(2, 20)}${side(3, 30)}  - { id: 4, name: meet, model: a, pres: [1, 2, 3], inputs: { x: [{ module: add10, tensor: y }, { module: add20, tensor: y }, { module: add30, tensor: y }] } }
`;
    await serve(
      file,
      `const add = (by) => ({ x }) => ({ y: { shape: [1, 1], data: [x.data[0] + by] } });
export const [add10, add20, add30] = [add(10), add(20), add(30)];
export const route = ({ x }) => ({ way: { shape: [2], data: [7, Number(x.data[0])] } });`,
    );
    for (const way of [0, 1, 2]) expect(answer(await infer([way]))).toEqual([way + 10 * (way + 1)]);
    const lost = await infer([3]);
    expect(lost.error!.message).toBe(
      "pipeline 'p': module 'route': branch: element 1 of output 'way' must be a position of its subs, in [0, 2]; was 3",
    );
    expect(lost.error!.details).toMatchObject({ module: "route", reason: "model-error" });
  });

  test("what is soft and missing gives its default to its taker", async () => {
    const file = `
modules:
  - { id: 0, name: maybe, step: ./s.mjs, soft: true, takes: { x: ${FP} }, gives: { y: ${FP} }, defaults: { y: { shape: [2, 1], data: [8, 9] } } }
  - { id: 1, name: take, model: a, pres: [0], inputs: { x: { module: maybe, tensor: y } } }
`;
    await serve(file, "export default ({ x }) => { if (x.data[0] === 1) throw new Error('no'); return { y: x }; };");
    expect(answer(await infer([4]))).toEqual([4]);
    expect(answer(await infer([1]))).toEqual([8, 9]);
    expect(await parts("maybe", "failed")).toBe(1);
  });

  test("of parts each has its own default: what is put together has its place", async () => {
    const file = `
modules:
  - { id: 0, name: each, step: "./s.mjs#odd", soft: true, fan_out: { tensors: [x] }, takes: { x: ${FP} }, gives: { y: ${FP} }, defaults: { y: { shape: [1, 1], value: -1 } } }
  - { id: 1, name: join, model: a, pres: [0], join: true, inputs: { x: { module: each, tensor: y } } }
`;
    await serve(
      file,
      "export const odd = ({ x }) => { if (x.data[0] % 2 === 0) throw new Error('even'); return { y: x }; };",
    );
    expect(answer(await infer([1, 2, 3, 4]))).toEqual([1, -1, 3, -1]);
    // A model needs a row at least: that nothing is left is the joining module's error.
    expect((await infer([])).error).toMatchObject({ code: "invalid-argument", details: { module: "join" } });
  });
});
