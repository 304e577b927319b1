/** Cells of more are shortened, where they list things. */
const CELL_MAX = 200;
/** Kept of a list. */
const KEPT = 4;

/** A cell as people read it: of long lists the first few, and how many more there are. report.json has them whole. */
export function shortCell(text: string): string {
  if (text.length <= CELL_MAX) return text;
  return text
    .split("; ")
    .map((clause) => {
      const items = clause.split(", ");
      if (items.length <= KEPT + 1) return clause;
      return `${items.slice(0, KEPT).join(", ")}, ... and ${items.length - KEPT} more`;
    })
    .join("; ");
}
