import path from "node:path";
import { describe, expect, it } from "vitest";
import {
  type Answer,
  example,
  type Infer,
  type InputTensor,
  inferDirectly,
  root,
  rubatoYaml,
} from "./direct-client.js";

interface Line {
  readonly text: string;
  readonly confidence: number;
  readonly upsideDown: boolean;
  readonly refused?: Error;
}
interface ClientModule {
  readonly Refused: new (status: string, message: string) => Error;
}
interface PageModule {
  readPage(file: string, infer: Infer): Promise<Line[]>;
}
const { Refused } = await example<ClientModule>("client.mjs");
const { readPage } = await example<PageModule>("page.mjs");
const page = path.join(root, "examples", "page.png");
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

describe("page", () => {
  it("every line of the page is read right, in reading order, the one upside down too", async () => {
    const lines = await readPage(page, inferDirectly);
    expect(lines.map((line) => line.text)).toEqual(LINES);
    expect(lines.filter((line) => line.upsideDown).map((line) => line.text)).toEqual(["Please turn over"]);
    for (const { text, confidence } of lines) expect(confidence, text).toBeGreaterThan(0.9);
  });

  it("a line that is refused is told apart, the others are read; another error is not swallowed", async () => {
    let seen = 0;
    const failing =
      (error: Error): Infer =>
      async (model, inputs) => {
        if (model === "ocr-rec" && ++seen === 3) throw error;
        return inferDirectly(model, inputs);
      };
    const lines = await readPage(page, failing(new Refused("504", "too late")));
    expect(lines).toHaveLength(LINES.length);
    const refused = lines.filter((line) => line.refused !== undefined);
    expect(refused.map((line) => line.refused!.message)).toEqual(["too late"]);
    expect(lines.filter((line) => line.refused === undefined && LINES.includes(line.text))).toHaveLength(11);
    seen = 0;
    await expect(readPage(page, failing(new TypeError("a bug")))).rejects.toThrow("a bug");
  });

  it("padding the width to the repository's buckets changes no letter, and no confidence by more than 0.05", async () => {
    const alone = await readPage(page, inferDirectly);
    const padded = await readPage(page, inferPadded);
    expect(padded.map((line) => line.text)).toEqual(alone.map((line) => line.text));
    padded.forEach((line, i) => {
      expect(Math.abs(line.confidence - alone[i]!.confidence), line.text).toBeLessThan(0.05);
    });
  });
});
