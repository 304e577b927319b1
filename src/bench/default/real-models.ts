/** Real models that the default is measured with, and the load that suits each. */
import { writeFileSync } from "node:fs";
import path from "node:path";
import type { LoadOptions } from "../../load/load-options.js";
import { type ModelSource, shippedModel } from "../serving/policy-models.js";
import { RECURRENT, recurrentModel } from "../serving/recurrent-model.js";
import { sentenceLengths } from "../serving/sentence-lengths.js";
import type { RealName } from "./live-cases.js";

export interface RealModel {
  readonly source: ModelSource;
  /** Extent of its longest request; null: all are alike. */
  readonly longest: number | null;
  readonly sloMs: (aloneMs: number) => number;
  readonly load: Partial<LoadOptions>;
}

const SENTENCES = 1000;
/** Widths of lines of text, pixels. */
const LINE_WIDTHS = [80, 640] as const;
const LINES = 64;
const SAMPLE_RATE = 16_000;

const times = (factor: number) => (aloneMs: number) => Math.ceil(factor * aloneMs);

/** @param folder files are written there. */
export function realModel(name: RealName, folder: string, dataDir: string | null): RealModel {
  switch (name) {
    case "embedder": {
      const { tokens, longest } = sentenceLengths(dataDir, SENTENCES, 1);
      const lengths = path.join(folder, "lengths.txt");
      writeFileSync(lengths, tokens.join("\n"));
      return { source: shippedModel(name), longest, sloMs: times(2), load: { lengths, samples: SENTENCES } };
    }
    case "ocr-rec": {
      const [low, high] = LINE_WIDTHS;
      const load = { lengths: `uniform:${low}:${high}`, samples: LINES };
      return { source: shippedModel(name), longest: high, sloMs: times(3), load };
    }
    case "vad": {
      const source = shippedModel(name);
      const shippedMs = source.settings.slo_ms as number;
      const load = { shapes: { state: [2, 1, 128] }, ranges: { sr: [SAMPLE_RATE, SAMPLE_RATE] } } as const;
      return { source, longest: null, sloMs: () => shippedMs, load };
    }
    case "recurrent": {
      const file = path.join(folder, "recurrent.onnx");
      writeFileSync(file, recurrentModel());
      const source = { settings: { batch_max: 32, inputs: batched("ids"), outputs: batched("scores") }, file };
      return { source, longest: null, sloMs: times(4), load: { ranges: { ids: [0, RECURRENT.vocabulary - 1] } } };
    }
  }
}

const batched = (name: string) => ({ [name]: { batch_axis: 0 } });
