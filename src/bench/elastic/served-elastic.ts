/** An elastic model once for each contender on one server; what it carries and how often it is right are measured before. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { interpolateTable, type ModelProfile, profileAt } from "../../serve/models/model-profile.js";
import { ServingError } from "../../wire/serving-error.js";
import { type LabelledImages, readLabelledImages } from "../serving/elastic/labelled-images.js";
import { measureProfile } from "../serving/measured-profile.js";
import { type ModelSource, sourceOf } from "../serving/policy-models.js";
import { type Stoppable, serveFolder } from "../serving/served-folder.js";
import {
  type ElasticContender,
  fixedContenders,
  groupConfig,
  groupOf,
  WORKER,
  writeElastic,
} from "./elastic-contenders.js";
import {
  burstyRates,
  drawQueries,
  type ElasticRunLength,
  type QueryType,
  queryTypes,
  stretchOf,
} from "./elastic-workload.js";
import { classifyAll, type ElasticCounts, INPUT, runLabelled, samplesOf } from "./labelled-load.js";

/** Share of a task's test images that are right, by task and gamma. */
export type Accuracy = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** What is measured once for all runs. */
export interface ElasticMachine {
  /** Requests/s of full batches at gamma 0, on one accelerator. */
  readonly capacityRps: number;
  readonly accuracy: Accuracy;
}

export interface ServeElasticOptions {
  /** Folder of the model. */
  readonly model: string;
  readonly contenders: readonly ElasticContender[];
  readonly profileS: number;
  readonly dataDir: string | null;
  /** Of an earlier run; what is absent is measured. */
  readonly known: Partial<ElasticMachine>;
  readonly note: (text: string) => void;
}

export interface ElasticRunOptions extends ElasticRunLength {
  readonly rps: number;
  readonly seed: number;
}

export interface ServedElastic extends ElasticMachine, Stoppable {
  readonly types: readonly QueryType[];
  readonly stretch: number;
  /** The same seed, the same arrivals, images and labels, whoever serves them. */
  run(contender: ElasticContender, run: ElasticRunOptions): Promise<ElasticCounts>;
}

const CONCURRENCY = 16;
/** Nobody misses it. */
const SLACK_MS = 30_000;
/** Of a contender that is warmed up. */
const WARM_IMAGES = 64;

export const gammasOf = ({ settings }: ModelSource): number[] => (settings.elastic as { gammas: number[] }).gammas;

export function serveElastic(options: ServeElasticOptions): Promise<ServedElastic> {
  const { model, contenders, known, note } = options;
  return serveFolder("elastic", async (folder, serve) => {
    const source = sourceOf(model);
    const gammas = gammasOf(source);
    note(`profiling with ${gammas.length} gammas for ${options.profileS} s`);
    const profile = await measureProfile(folder, source, options.profileS, WORKER);
    const capacityRps = known.capacityRps ?? capacityOf(profile);
    const stretch = stretchOf(capacityRps);
    const repository = path.join(folder, "models");
    // The promise of the model is that of its longest type, as the paper's is.
    const longestMs = Math.max(...queryTypes([""], stretch).map(({ sloMs }) => sloMs));
    // They leave at once: others wait for company that does not come.
    const byGamma = fixedContenders(gammas).filter(({ policy }) => policy?.options?.dispatch === "eager");
    const served = known.accuracy === undefined ? union(contenders, byGamma) : contenders;
    writeElastic(repository, model, source, served, longestMs, profile);
    const groups = Object.fromEntries(served.map((each) => [groupOf(each), groupConfig(each)]));
    note(`starting ${served.length} workers; capacity ${capacityRps.toFixed(0)} requests/s at gamma 0`);
    const { httpPort } = await serve({ models: repository, groups });
    const urlOf = (each: ElasticContender): string => `http://127.0.0.1:${httpPort}/v2/models/${groupOf(each)}`;
    const side = await sideOf(urlOf(served[0]!));
    const images = (await tasksOf(httpPort, served[0]!)).map((task) =>
      readLabelledImages(path.join(model, "images"), task, side),
    );
    const accuracy = known.accuracy ?? (await accuracyOf(byGamma, images, urlOf, note));
    await Promise.all(contenders.map((contender) => warm(urlOf(contender), images[0]!, longestMs)));
    const hardestFirst = images.map(({ task }) => task).sort((a, b) => accuracy[a]!["0"]! - accuracy[b]!["0"]!);
    const types = queryTypes(hardestFirst, stretch);
    const ofTypes = types.map(({ task }) => images.find((own) => own.task === task)!);
    const samples = types.map((type, index) => samplesOf(ofTypes[index]!, type));
    const best = types.map(({ task, utility }) => utility * Math.max(...Object.values(accuracy[task]!)));
    const rates = burstyRates(options.dataDir);
    const run: ServedElastic["run"] = (contender, { rps, seed, warmupS, countedS }) => {
      const counts = ofTypes.map(({ labels }) => labels.length);
      const queries = drawQueries({ rates, rps, stretch, seed, warmupS, countedS, images: counts });
      const countedFromUs = warmupS * stretch * 1e6;
      return runLabelled(urlOf(contender), samples, { types, images: ofTypes, best, queries, countedFromUs });
    };
    return { capacityRps, accuracy, types, stretch, run };
  });
}

const union = (some: readonly ElasticContender[], others: readonly ElasticContender[]): ElasticContender[] => [
  ...some,
  ...others.filter(({ name }) => !some.some((each) => each.name === name)),
];

/** What batches of the best size do in a second at gamma 0. */
function capacityOf(file: string): number {
  const profile = JSON.parse(readFileSync(file, "utf8")) as ModelProfile;
  const execUs = interpolateTable(profileAt(profile, 0), null, "alone");
  return Math.max(...Array.from({ length: profile.batchMax }, (_, at) => ((at + 1) * 1e6) / execUs[at + 1]!));
}

async function sideOf(url: string): Promise<number> {
  const { inputs } = await getJson<{ inputs: { name: string; shape: number[] }[] }>(url);
  return Number(inputs.find(({ name }) => name === INPUT)!.shape.at(-1));
}

/** Those that are served. @throws ServingError unavailable: one is not, and why. */
async function tasksOf(port: number, contender: ElasticContender): Promise<string[]> {
  const url = `http://127.0.0.1:${port}/v2/repository/models/${groupOf(contender)}/tasks`;
  const { tasks } = await getJson<{ tasks: { name: string; state: string; reason: string }[] }>(url);
  const missing = tasks.find(({ state }) => state !== "READY");
  if (missing !== undefined)
    throw new ServingError("unavailable", `task '${missing.name}' is not served: ${missing.reason || missing.state}`);
  if (tasks.length === 0) throw new ServingError("not-found", "the elastic model has no tasks");
  return tasks.map(({ name }) => name);
}

const getJson = async <T>(url: string): Promise<T> => (await (await fetch(url)).json()) as T;

/** Every test image once with every gamma. @param byGamma a contender of each. */
async function accuracyOf(
  byGamma: readonly ElasticContender[],
  images: readonly LabelledImages[],
  urlOf: (contender: ElasticContender) => string,
  note: (text: string) => void,
): Promise<Accuracy> {
  const accuracy: Record<string, Record<string, number>> = Object.fromEntries(images.map(({ task }) => [task, {}]));
  for (const contender of byGamma)
    for (const own of images) {
      const type = { task: own.task, sloMs: SLACK_MS, utility: 1 };
      const found = await classifyAll(urlOf(contender), own, type, CONCURRENCY);
      const odd = found.find((each) => typeof each === "string" || each.gamma !== contender.gamma);
      if (odd !== undefined)
        throw new ServingError(
          "unavailable",
          `${contender.name}: images must be answered with its gamma; was ${JSON.stringify(odd)}`,
        );
      const right = found.filter((each, at) => typeof each === "object" && each.found === own.labels[at]).length;
      accuracy[own.task]![contender.gamma!] = right / found.length;
    }
  for (const { task } of images) {
    const row = Object.entries(accuracy[task]!).sort(([a], [b]) => Number(a) - Number(b));
    note(
      `${task} is right by gamma: ${row.map(([gamma, share]) => `${gamma}: ${(100 * share).toFixed(1)} %`).join(", ")}`,
    );
  }
  return accuracy;
}

/** The first batches of a worker take longer than any other; whether they are in time is all one. */
async function warm(url: string, images: LabelledImages, sloMs: number): Promise<void> {
  const some = { ...images, labels: images.labels.subarray(0, WARM_IMAGES) };
  await classifyAll(url, some, { task: images.task, sloMs, utility: 1 }, CONCURRENCY);
}
