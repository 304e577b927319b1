/** Versions of a model: its numbered folders, and which of them are served. */
import { readdirSync } from "node:fs";
import path from "node:path";
import { ModelFileError } from "../../config/server/model-file.js";
import { isFolder } from "./model-location.js";
import type { VersionPolicy } from "./triton-config/triton-config.js";

const VERSION_MAX = 2n ** 63n - 1n;
/** Each is loaded on every worker of its group: more at once is a mistake. */
const SERVED_MAX = 64;

export interface VersionFolders {
  /** Increasing. */
  readonly versions: readonly string[];
  /** Folders that look like one and are none: 0, 007, beyond 2^63 - 1, v1, -1. */
  readonly ignored: readonly string[];
}

/** @throws Error of the file system where the folder cannot be read. */
export function versionFolders(folder: string): VersionFolders {
  const numbered = readdirSync(folder).filter((name) => /^[-v]?\d+$/i.test(name) && isFolder(path.join(folder, name)));
  const isVersion = (name: string): boolean => /^[1-9]\d{0,18}$/.test(name) && BigInt(name) <= VERSION_MAX;
  return {
    versions: numbered.filter(isVersion).sort(compareVersions),
    ignored: numbered.filter((name) => !isVersion(name)).sort(),
  };
}

/** Of folders that are there, those that the policy serves, increasing. @throws ModelFileError */
export function servedVersions(folders: readonly string[], policy: VersionPolicy, file: string): readonly string[] {
  const served = chosen(folders, policy, file);
  if (served.length > SERVED_MAX)
    throw new ModelFileError([
      `${file}: version_policy must choose at most ${SERVED_MAX} versions at once; was ${served.length}`,
    ]);
  return served;
}

function chosen(folders: readonly string[], policy: VersionPolicy, file: string): readonly string[] {
  switch (policy.kind) {
    case "all":
      return folders;
    case "latest":
      return folders.slice(-policy.count);
    case "specific": {
      const absent = policy.versions.filter((version) => !folders.includes(version));
      if (absent.length > 0)
        throw new ModelFileError([
          `${file}: version_policy.specific.versions must be of the folders ${folders.join(", ")}; was ${absent.join(", ")}`,
        ]);
      return folders.filter((version) => policy.versions.includes(version));
    }
  }
}

/** As numbers up to 2^63 - 1, which a double does not tell apart. */
const compareVersions = (a: string, b: string): number => a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
