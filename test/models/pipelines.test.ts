/** The pipelines that ship with steps, on their real models: through the server, as examples ask for them, and their steps by hand. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunningServer } from "../../src/serve/running-server.js";
import { serveIn } from "../support/running-server.js";
import {
  type Answer,
  example,
  type Infer,
  type InputTensor,
  inferDirectly,
  modelsDir,
  type OutputTensor,
  root,
  rubatoYaml,
} from "./direct-client.js";
import { runExample } from "./run-example.js";

const PAGE = path.join(root, "examples", "page.png");
const LINES = [
  "Invoice 20231",
  "Berlin, 14 March 2025",
  "8 hours of tempo rubato",
  "640.00",
  "1 metronome, mahogany",
  "99.50",
  "Sheet music",
  "12.00",
  "Total",
  "751.50",
  "Payment within 30 days",
  "Please turn over",
];

describe("the pipelines that ship, served", () => {
  // Within the project: its steps find their packages from where they lie.
  const folder = mkdtempSync(path.join(root, "node_modules", ".rubato-page-"));
  let running: RunningServer;
  beforeAll(async () => {
    for (const name of ["ocr", "ocr-det", "ocr-cls", "ocr-rec", "similarity", "embedder"])
      cpSync(path.join(modelsDir, name), path.join(folder, "models", name), { recursive: true });
    const file =
      "http: { port: 0 }\ngrpc: { port: 1 }\ngroups: { cpu: { kind: onnx, count: 2, threads: 1 } }\nprofile: { budget_s: 0.5 }\nlog: { level: silent }\n";
    running = await serveIn(folder, file);
  }, 120_000);
  afterAll(async () => {
    await running.stop(0);
    rmSync(folder, { recursive: true, force: true });
  });

  interface Client {
    infer(model: string, inputs: readonly unknown[], settings: { timeoutMs: number }): Promise<PageAnswer>;
    close(): void;
  }
  interface PageAnswer {
    readonly outputs: Readonly<Record<string, { shape: readonly number[]; data: readonly (string | number)[] }>>;
  }
  interface TextModule {
    embedderInputs(text: string): readonly InputTensor[];
    similarity(a: Float32Array, b: Float32Array): number;
  }
  interface ClientModule {
    connectHttp(base: string): Client;
    tensor(name: string, datatype: string, shape: readonly number[], data: readonly Uint8Array[]): unknown;
  }

  it("every line of the page is read right, in reading order, the one upside down too", async () => {
    const { connectHttp, tensor } = await example<ClientModule>("client.mjs");
    const client = connectHttp(running.httpUrl);
    const read = async (image: Uint8Array) =>
      (await client.infer("ocr", [tensor("image", "BYTES", [1], [image])], { timeoutMs: 50_000 })).outputs;
    const { text, confidence, upside_down: upsideDown, boxes } = await read(readFileSync(PAGE));
    expect(text!.data).toEqual(LINES);
    expect(LINES.filter((_, line) => upsideDown!.data[line] === 1)).toEqual(["Please turn over"]);
    for (const [line, sure] of [...confidence!.data].entries()) expect(sure, LINES[line]!).toBeGreaterThan(0.9);
    expect(boxes!.shape).toEqual([LINES.length, 4]);
    // A page without text has no parts; what is no image is its client's fault.
    const { default: sharp } = await import("sharp");
    const white = { width: 640, height: 480, channels: 3, background: "white" } as const;
    const empty = await read(await sharp({ create: white }).png().toBuffer());
    expect([empty.text!.shape, empty.boxes!.shape]).toEqual([[0], [0, 4]]);
    await expect(read(Buffer.from("no image"))).rejects.toThrow(
      /^pipeline 'ocr': module 'page': step '\.\/read\.mjs#page': the step refused the request: the image cannot be read/,
    );
    client.close();
  }, 120_000);

  it("two texts, embedded beside each other, are as alike as their embeddings", async () => {
    const { connectHttp, tensor } = await example<ClientModule>("client.mjs");
    const client = connectHttp(running.httpUrl);
    const alike = async (a: string, b: string): Promise<number> => {
      const texts = [tensor("a", "BYTES", [1], [Buffer.from(a)]), tensor("b", "BYTES", [1], [Buffer.from(b)])];
      const { similarity } = (await client.infer("similarity", texts, { timeoutMs: 50_000 })).outputs;
      return similarity!.data[0] as number;
    };
    const [music, tempo, weather] = ["He plays the piano.", "The pianist is playing.", "It rains in the north."];
    expect(await alike(music, music)).toBeCloseTo(1, 5);
    const { embedderInputs, similarity } = await example<TextModule>("text.mjs");
    const embedding = async (text: string) =>
      (await inferDirectly("embedder", embedderInputs(text))).outputs.embedding!.data;
    const byHand = async (a: string, b: string) => similarity(await embedding(a), await embedding(b));
    expect(await alike(music, tempo)).toBeCloseTo(await byHand(music, tempo), 3);
    expect(await alike(music, weather)).toBeCloseTo(await byHand(music, weather), 3);
    expect(await alike(music, tempo)).toBeGreaterThan(await alike(music, weather));
    client.close();
  }, 120_000);

  it("read-page.mjs prints the lines of the page and the refusal", async () => {
    const flags = ["--http", running.httpUrl, "--timeout-ms", "50000"];
    const said = await runExample("read-page.mjs", ...flags);
    expect([said.status, said.stderr]).toEqual([0, ""]);
    expect(said.stdout).toMatch(/Invoice 20231\n/);
    expect(said.stdout).toMatch(/Please turn over {2}\(upside down\)\n/);
    // Whether the 5 ms are over when the first module is asked depends on the machine.
    expect(said.stdout).toMatch(
      /within 5 ms: refused .* reason (infeasible|budget|expired); pipeline 'ocr': module 'page'/,
    );
  }, 120_000);
});

interface Given {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}
interface Steps {
  page(inputs: { image: { data: Uint8Array[] } }): Promise<{ pixels: unknown; x: Given }>;
  boxes(inputs: { pixels: unknown; probability: OutputTensor }): Promise<{ heads: Given[]; lines: Given[] }>;
  turn(inputs: { line: Given }): { line: Given };
  decode(inputs: { class: { data: Int32Array }; probability: { data: Float32Array }; direction: OutputTensor }): {
    text: { data: string[] };
    confidence: { data: number[] };
  };
}

/** Pads the width to the bucket of rubato.yaml and cuts the answer back, as the server does. */
const inferPadded: Infer = async (model, inputs) => {
  const { variable_axis, buckets, pad_value } = rubatoYaml(model).inputs.x!;
  if (variable_axis === undefined) return inferDirectly(model, inputs);
  const [x] = inputs as [InputTensor];
  const [rows, width] = [x.data.length / x.shape[3]!, x.shape[3]!];
  const bucket = buckets!.find((extent) => extent >= width);
  if (bucket === undefined) throw new Error(`${model}: no bucket holds a width of ${width}`);
  const data = new Float32Array(rows * bucket).fill(pad_value!);
  for (let r = 0; r < rows; r += 1) data.set((x.data as Float32Array).subarray(r * width, (r + 1) * width), r * bucket);
  const answer = await inferDirectly(model, [{ ...x, shape: [1, 3, 48, bucket], data }]);
  const outputs: Answer["outputs"] = Object.fromEntries(
    Object.entries(answer.outputs).map(([name, { shape, data }]) => {
      const steps = width / 8;
      return [name, { shape: [1, steps, shape[2]!], data: data.slice(0, steps * shape[2]!) }];
    }),
  );
  return { outputs, ms: 0 };
};

/** What the tail of ocr-rec says of its probabilities, by plain loops. */
function best({ shape, data }: OutputTensor): { class: { data: Int32Array }; probability: { data: Float32Array } } {
  const [, steps, count] = shape as [number, number, number];
  const [classes, probability] = [new Int32Array(steps), new Float32Array(steps)];
  for (let step = 0; step < steps; step++)
    for (let each = 0; each < count; each++) {
      const value = data[step * count + each]!;
      if (value <= probability[step]!) continue;
      classes[step] = each;
      probability[step] = value;
    }
  return { class: { data: classes }, probability: { data: probability } };
}

describe("its steps by hand", () => {
  const run = async (infer: Infer, model: string, output: string, { shape, data }: Given): Promise<OutputTensor> =>
    (await infer(model, [{ name: "x", datatype: "FP32", shape, data }])).outputs[output]!;

  it("padding the width to the repository's buckets changes no letter, and no confidence by more than 0.05", async () => {
    const steps = (await import(path.join(modelsDir, "ocr", "read.mjs"))) as Steps;
    const { pixels, x } = await steps.page({ image: { data: [readFileSync(PAGE)] } });
    const probability = await run(inferDirectly, "ocr-det", "sigmoid_0.tmp_0", x);
    const { heads, lines } = await steps.boxes({ pixels, probability });
    expect(lines).toHaveLength(LINES.length);
    const read: string[] = [];
    for (const [index, line] of lines.entries()) {
      const direction = await run(inferDirectly, "ocr-cls", "softmax_0.tmp_0", heads[index]!);
      const upright = direction.data[1]! > 0.9 ? steps.turn({ line }).line : line;
      const said = async (infer: Infer) =>
        steps.decode({ ...best(await run(infer, "ocr-rec", "softmax_11.tmp_0", upright)), direction });
      const [alone, padded] = [await said(inferDirectly), await said(inferPadded)];
      expect(padded.text.data).toEqual(alone.text.data);
      expect(Math.abs(padded.confidence.data[0]! - alone.confidence.data[0]!)).toBeLessThan(0.05);
      read.push(alone.text.data[0]!);
    }
    expect(read.sort()).toEqual([...LINES].sort());
  });
});
