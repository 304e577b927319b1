import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Figure } from "./figure.js";

/** Into a folder, made where it is not there. @param folder null or undefined: nowhere. */
export async function writeFigure(folder: string | null | undefined, figure: Figure): Promise<void> {
  if (folder === undefined || folder === null) return;
  const { renderFigure, standalone } = await import("./chart.js");
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, `${figure.id}.svg`), standalone(await renderFigure(figure)));
}
