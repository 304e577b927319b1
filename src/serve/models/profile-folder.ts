/**
 * The folder for profiles that cannot be kept beside their model: the user's own cache (XDG), nobody else's to write.
 *
 * What a profile says decides who is refused, and writing one follows where the folder leads. In a shared folder another
 * user could plant the one and redirect the other.
 */
import { chmodSync, lstatSync, mkdirSync, realpathSync, type Stats } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";

/** Absent on Windows, where folders of a user are private by their access lists. */
const uid = process.getuid?.();
const ROOT = 0;
const OTHERS_WRITE = 0o002;
const STICKY = 0o1000;
const PRIVATE = 0o700;

export interface ProfileFolder {
  /** null: profiles are not kept there. */
  readonly folder: string | null;
  /** Why not; null: they are. */
  readonly problem: string | null;
}

/** `$XDG_CACHE_HOME/rubato/profiles`, else `~/.cache/rubato/profiles`; made if it is not there. */
export function profileFolder(environment: NodeJS.ProcessEnv = process.env): ProfileFolder {
  const { XDG_CACHE_HOME: cache } = environment;
  // A relative one is to be ignored, says the XDG specification.
  const base = cache !== undefined && path.isAbsolute(cache) ? cache : path.join(homedir(), ".cache");
  const own = path.join(base, "rubato");
  const folder = path.join(own, "profiles");
  try {
    mkdirSync(folder, { recursive: true, mode: PRIVATE });
    const problem = sharedBy(realpathSync(base)) ?? foreign(own) ?? foreign(folder);
    if (problem !== null) return { folder: null, problem };
    for (const each of [own, folder]) chmodSync(each, PRIVATE);
    return { folder, problem: null };
  } catch (error) {
    return { folder: null, problem: (error as Error).message };
  }
}

/** Why a folder is not ours alone: a link, or another user's. */
function foreign(folder: string): string | null {
  const stats = lstatSync(folder);
  if (!stats.isDirectory()) return `${folder} must be a folder; it is a link or a file`;
  return isOwn(stats, [uid]) ? null : `${folder} must belong to user ${uid}; it belongs to ${stats.uid}`;
}

/** Who can write an ancestor can put another folder in our place; in one like the temporary folder (sticky) only owners can. */
function sharedBy(folder: string): string | null {
  const stats = lstatSync(folder);
  if (!isOwn(stats, [uid, ROOT])) return `${folder} must belong to user ${uid} or root; it belongs to ${stats.uid}`;
  const isShared = (stats.mode & OTHERS_WRITE) !== 0 && (stats.mode & STICKY) === 0;
  if (isShared) return `${folder} must not be writable by everyone`;
  const parent = path.dirname(folder);
  return parent === folder ? null : sharedBy(parent);
}

/** @param owners undefined among them: this platform knows none. */
export const isOwn = (stats: Stats, owners: readonly (number | undefined)[]): boolean =>
  uid === undefined || owners.includes(stats.uid);
