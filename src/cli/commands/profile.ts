/** `rubato profile`: how long batches of a model take, alone and with its whole group at work. */
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { Command } from "commander";
import { nearest } from "../../config/config-error.js";
import { GROUP_AUTO } from "../../config/model.js";
import type { ModelProfile, ProfileFit } from "../../serve/models/model-profile.js";
import { PIPELINE_NAMES } from "../../serve/repository/pipeline-reader.js";
import { ServingError } from "../../wire/serving-error.js";
import { numberWithin } from "../option-values.js";
import { type Output, writeJson } from "../output.js";
import { CONFIG_OPTION, type ServerConfigOptions, serverConfigOf } from "../server-config.js";
import { formatNumber, renderTable } from "../table.js";

interface ProfileCommandOptions extends ServerConfigOptions {
  readonly budget: number;
  readonly json?: boolean;
  readonly dryRun?: boolean;
}

export function profileCommand(output: Output): Command {
  return new Command("profile")
    .summary("measure how long batches of a model take")
    .description(
      "Loads one model on the workers of its group and measures batches of growing size, at every bucket of its variable " +
        "axis, alone and with all workers busy; fits l(b) = alpha b + beta; keeps the profile beside the model, where " +
        "`rubato serve` reads it. The server measures by itself when a model has no profile; this takes longer and is " +
        "more exact. Run it while nothing else uses the machine.",
    )
    .argument("<model>", "name of a folder of the repository")
    .option("--models <dir>", "model repository (default: models)")
    .option(...CONFIG_OPTION)
    .option("--budget <s>", "seconds to measure", numberWithin({ min: 0.5, max: 3600 }), 30)
    .option("--dry-run", "measure and print, keep nothing")
    .option("--json", "print the profile as one JSON document")
    .addHelpText(
      "after",
      `
Examples:
  rubato profile embedder
  rubato profile ocr-rec --budget 120 --json`,
    )
    .action(async (model: string, options: ProfileCommandOptions) => {
      const { profile, file } = await measure(model, options, output);
      if (options.json) writeJson(output, profile);
      else output.result(renderProfile(profile));
      if (file !== null) output.note(`kept in ${file}`);
    });
}

async function measure(
  name: string,
  options: ProfileCommandOptions,
  output: Output,
): Promise<{ profile: ModelProfile; file: string | null }> {
  const config = serverConfigOf(options);
  const { hostLimits } = await import("../../serve/models/host-limits.js");
  const { readServable, servedBy } = await import("../../serve/repository/repository.js");
  const { ProcessPool } = await import("../../serve/workers/process-pool.js");
  const { profileModel } = await import("../../serve/models/profiler.js");
  const { saveProfile } = await import("../../serve/models/profile-store.js");
  const { profileFolder } = await import("../../serve/models/profile-folder.js");
  const read = readFrom(config.modelsDir, name, () =>
    readServable(config.modelsDir, name, servedBy(hostLimits(config))),
  ).at(-1)!;
  // The groups of placement are alike, and so are the profiles measured on them.
  const placed = config.placement?.groups[0];
  const spec = read.group === GROUP_AUTO && placed !== undefined ? { ...read, group: placed } : read;
  const group = config.groups.find((candidate) => candidate.name === spec.group)!;
  const pool = new ProcessPool([group], {
    log: ({ level, message }) => {
      if (level === "warn" || level === "error") output.note(message);
    },
    providers: config.workers.providers,
  });
  try {
    await pool.start(() => {});
    await pool.load(spec);
    const profile = await profileModel(pool, spec, {
      budgetMs: options.budget * 1000,
      runtime: pool.runtimeOf(spec.group),
      onProgress: ({ point, spent }) => {
        if (output.interactive && !options.json)
          output.note(
            `\r\x1b[K${Math.round(100 * spent)} %: batch ${point.batchSize}${point.extent === null ? "" : ` of extent ${point.extent}`}`,
          );
      },
    });
    if (output.interactive && !options.json) output.note("\r\x1b[K");
    const isKept = options.dryRun !== true && spec.emulated === null;
    return { profile, file: isKept ? saveProfile(spec, profile, profileFolder().folder) : null };
  } finally {
    await pool.stop(1000);
  }
}

/** A name that is not there is said with where it was looked for: --models, the configuration and the default are three places. */
function readFrom<T>(modelsDir: string, name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ServingError && error.code === "not-found")) throw error;
    const repository = path.resolve(modelsDir);
    if (PIPELINE_NAMES.some((file) => existsSync(path.join(repository, name, file))))
      throw new ServingError("invalid-argument", `'${name}' is a pipeline, which has no profile: its models have`);
    const near = existsSync(repository) ? nearest(name, readdirSync(repository)) : null;
    const hint = near === null ? "" : `; did you mean ${near}?`;
    throw new ServingError("not-found", `model '${name}' is not in the repository ${repository}${hint}`);
  }
}

function renderProfile(profile: ModelProfile): string {
  const right = (title: string) => ({ title, align: "right" }) as const;
  const ms = (us: number): string => formatNumber(us / 1000);
  const of = ({ extent, gamma }: Pick<ProfileFit, "extent" | "gamma">): string => String(gamma ?? extent ?? "");
  const what = profile.points.some(({ gamma }) => gamma !== undefined) ? "gamma" : "extent";
  const points = profile.points.map((point) => {
    const { batchSize, alone, busy } = point;
    return [
      of(point),
      String(batchSize),
      ms(alone.p50Us),
      ms(alone.p90Us),
      ms(alone.p99Us),
      ms(busy.p50Us),
      ms(busy.p99Us),
      formatNumber(batchSize / (busy.p50Us / 1e6)),
      String(alone.runs),
    ];
  });
  const fit = (fitted: ProfileFit): string[] => {
    const { alone, busy } = fitted;
    const line = ({ alphaUs, betaUs, alphaSeUs, betaSeUs, r2 }: ProfileFit["alone"]): string[] => [
      `${ms(alphaUs)}${alphaSeUs === null ? "" : ` ± ${ms(alphaSeUs)}`}`,
      `${ms(betaUs)}${betaSeUs === null ? "" : ` ± ${ms(betaSeUs)}`}`,
      formatNumber(r2),
    ];
    return [of(fitted), ...line(alone), ...line(busy)];
  };
  const titles = [what, "batch", "alone p50 ms", "p90", "p99", "busy p50 ms", "p99", "busy rows/s", "runs"];
  const fitTitles = [what, "alone alpha ms", "beta ms", "R2", "busy alpha ms", "beta ms", "R2"];
  const note = profile.complete
    ? ""
    : "\n(the budget ended before the largest batch; larger ones follow the last slope: --budget)";
  return `${renderTable(titles.map(right), points)}\n\nl(b) = alpha b + beta\n${renderTable(fitTitles.map(right), profile.fits.map(fit))}${note}`;
}
