/** How many requests come each second: the two traces of §V, generated, or the second one from a file. */
import path from "node:path";
import { ConfigError } from "../../config/config-error.js";
import { readRateTrace } from "../../config/scenario/traces.js";
import { mean } from "../../measure/statistics.js";
import { normalOf, stream } from "../../sim/random.js";

export interface RateSource {
  readonly name: "synthetic" | "maf";
  /** Where its rates are from; absent: generated. */
  readonly file?: string;
  /** Requests/s by second. */
  rates(seconds: number): number[];
}

/** What arrives by them differs by seed; they do not. */
const SEED = 1;

const LEAST = 200;
const MOST = 700;
/**
 * "The query rate varies between 200 and 700 requests/s in each second" (Figure 8a): evenly. The paper's "more than 63k queries" in 30 minutes is 35/s, and
 * its utility of 1.46e5 is what some 480k queries earn; the rate is what is taken.
 */
const synthetic: RateSource = {
  name: "synthetic",
  rates(seconds) {
    const uniform = stream(SEED, "otas/synthetic");
    return Array.from({ length: seconds }, () => Math.round(LEAST + (MOST - LEAST) * uniform()));
  },
};

/** Median and spread such that 60 to 70 % of the seconds are below 300/s and 1 in 9 above 600/s; bursts last a few seconds. */
const MEDIAN = 200;
const DEVIATION = 0.9;
const CORRELATION = 0.6;
/** The machine of the trace is of no use beyond what it could ever serve: the highest second of the reconstructed trace. */
const PEAK = 3000;

const generatedMaf: RateSource = {
  name: "maf",
  rates(seconds) {
    const uniform = stream(SEED, "otas/maf");
    let state = normalOf(uniform(), uniform());
    return Array.from({ length: seconds }, () => {
      state = CORRELATION * state + Math.sqrt(1 - CORRELATION ** 2) * normalOf(uniform(), uniform());
      return Math.round(Math.min(PEAK, MEDIAN * Math.exp(DEVIATION * state)));
    });
  },
};

/** 120 hours of Azure Functions 2021, two minutes as a second, reconstructed. */
export const MAF_FILE = "maf2021_120h_2min-to-1s_reconstructed.csv";

function mafFrom(dataDir: string): RateSource {
  const trace = readRateTrace(path.join(dataDir, MAF_FILE));
  return {
    name: "maf",
    file: MAF_FILE,
    rates(seconds) {
      const rates = [...trace.rateRps];
      if (rates.length < seconds) {
        const message = `must have at least ${seconds} rows, one a second; had ${rates.length}`;
        throw new ConfigError(trace.file, [{ line: null, field: "second", message }]);
      }
      const from = likestFrom(rates, seconds);
      return rates.slice(from, from + seconds);
    },
  };
}

/** Where as many rows in a row begin as have the mean that is nearest to that of all; the first of equals. */
function likestFrom(rates: readonly number[], seconds: number): number {
  const wanted = mean(rates) * seconds;
  let sum = rates.slice(0, seconds).reduce((all, rate) => all + rate, 0);
  let [likest, off] = [0, Math.abs(sum - wanted)];
  for (let from = 1; from + seconds <= rates.length; from++) {
    sum += rates[from + seconds - 1]! - rates[from - 1]!;
    if (Math.abs(sum - wanted) >= off) continue;
    [likest, off] = [from, Math.abs(sum - wanted)];
  }
  return likest;
}

/** @param dataDir folder of the file; undefined: generated rates. @throws ConfigError what is wrong with it. */
export const sourcesOf = (dataDir: string | undefined): readonly [RateSource, RateSource] => [
  synthetic,
  dataDir === undefined ? generatedMaf : mafFrom(dataDir),
];
