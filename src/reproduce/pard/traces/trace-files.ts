/**
 * Rates of the paper's traces from files (`second,requests_per_second`), in place of generated ones. A file's hours are compressed into a run as the
 * generators' are: the mean rate of each of its spans is a second's. Which file stands for which trace, and how near it is, was decided where they were gathered.
 */
import path from "node:path";
import { ConfigError } from "../../../config/config-error.js";
import { type RateTrace, readRateTrace } from "../../../config/scenario/traces.js";
import { mean } from "../../../measure/statistics.js";
import { AZURE_CV, cvOf, GENERATED, normed, scaledTo, type Trace, type Traces, TWEET_CV, WIKI_CV } from "./rates.js";

/** Seconds of a file that become one of the run. Two minutes of the Azure trace have the paper's deviation (1.27; one has 1.45). */
const AZURE_SPAN_S = 120;

/** "Cut at 0": a stretched rate is not negative. */
const LEAST = 0;

/** English Wikipedia in January 2016 has 0.18 where the paper's of 2007 has 0.47: stretched. The whole of it is the run. */
const wiki = (dataDir: string): Trace =>
  fromFile("wiki", WIKI_CV, "wiki_en_2016-01_week_1h-to-60s.csv", dataDir, (trace, seconds) => {
    const rates = wholeOf(trace, seconds);
    if (cvOf(rates) === 0) throw refusal(trace, "must have rates that differ, to be stretched around their mean");
    return scaledTo(WIKI_CV, rates, LEAST);
  });

/** The whole of it is the run: bursts last a fifth of the trace. */
const tweet = (dataDir: string): Trace =>
  fromFile("tweet", TWEET_CV, "twitter_2021-08_burst_1400s.csv", dataDir, (trace, seconds) =>
    normed(wholeOf(trace, seconds)),
  );

/** Two weeks are too much for a run: so many spans in a row, those whose deviation is nearest the paper's. */
const azure = (dataDir: string): Trace =>
  fromFile("azure", AZURE_CV, "maf2021_14days_60s_reconstructed.csv", dataDir, (trace, seconds) =>
    normed(nearest(AZURE_CV, spansOf(trace, AZURE_SPAN_S), seconds, trace)),
  );

/** @param dataDir folder of the files; undefined: generated rates. @throws ConfigError with file, line, field, bound, value. */
export const tracesOf = (dataDir: string | undefined): Traces =>
  dataDir === undefined ? GENERATED : [wiki(dataDir), tweet(dataDir), azure(dataDir)];

function fromFile(
  name: string,
  cv: number,
  file: string,
  dataDir: string,
  factorsOf: (trace: RateTrace, seconds: number) => number[],
): Trace {
  const trace = readRateTrace(path.join(dataDir, file));
  return { name, cv, file, factors: (seconds) => factorsOf(trace, seconds) };
}

function wholeOf(trace: RateTrace, seconds: number): number[] {
  if (trace.atS.length < seconds) throw tooShort(trace, seconds, "row", trace.atS.length);
  return meansOver(trace, trace.endS / seconds, seconds);
}

const spansOf = (trace: RateTrace, spanS: number): number[] => meansOver(trace, spanS, Math.floor(trace.endS / spanS));

/** @returns mean rates of the first `count` spans: the trace's rate holds from each row to the next. */
function meansOver({ atS, rateRps }: RateTrace, spanS: number, count: number): number[] {
  let row = 0;
  let before = 0;
  /** Asked for ascending moments. */
  const requestsUntil = (second: number): number => {
    for (; row + 1 < atS.length && atS[row + 1]! <= second; row++)
      before += rateRps[row]! * (atS[row + 1]! - atS[row]!);
    return before + rateRps[row]! * (second - atS[row]!);
  };
  let came = 0;
  return Array.from({ length: count }, (_, span) => {
    const until = requestsUntil((span + 1) * spanS);
    const rate = Math.max(0, until - came) / spanS;
    came = until;
    return rate;
  });
}

/** The run of `width` rates whose deviation is nearest `cv`; the first of equals. */
function nearest(cv: number, rates: readonly number[], width: number, trace: RateTrace): readonly number[] {
  if (rates.length < width) throw tooShort(trace, width, `span of ${AZURE_SPAN_S} s`, rates.length);
  let best: readonly number[] | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (let from = 0; from + width <= rates.length; from++) {
    const window = rates.slice(from, from + width);
    const distance = Math.abs(cvOf(window) - cv);
    if (mean(window) > 0 && distance < least) [best, least] = [window, distance];
  }
  return best!;
}

const tooShort = (trace: RateTrace, seconds: number, what: string, count: number): ConfigError =>
  refusal(trace, `must have at least one ${what} for each second of the run (${seconds}); has ${count}`);

const refusal = ({ file }: RateTrace, message: string): ConfigError =>
  new ConfigError(file, [{ line: null, field: "", message }]);
