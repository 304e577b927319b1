/** Plain-text tables for people: columns aligned, numbers to the right. */
export interface TableColumn {
  readonly title: string;
  readonly align?: "left" | "right";
}

export function renderTable(columns: readonly TableColumn[], rows: readonly (readonly string[])[]): string {
  const widths = columns.map(({ title }, i) => rows.reduce((max, row) => Math.max(max, width(row[i])), title.length));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => {
        const space = " ".repeat(Math.max(0, widths[i]! - cell.length));
        return columns[i]!.align === "right" ? space + cell : cell + space;
      })
      .join("  ")
      .trimEnd();
  return [line(columns.map(({ title }) => title)), ...rows.map((row) => line(row))].join("\n");
}

/** Lines of `name  value`, names padded to one width. */
export function renderPairs(pairs: readonly (readonly [string, string])[]): string {
  const longest = pairs.reduce((max, [name]) => Math.max(max, name.length), 0);
  return pairs.map(([name, value]) => `${name.padEnd(longest)}  ${value}`.trimEnd()).join("\n");
}

function width(cell: string | undefined): number {
  return cell?.length ?? 0;
}

/** 5264.318 -> "5,264", 12.345 -> "12.3", 0.01234 -> "0.0123": three figures at least, no false precision. */
export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  const size = Math.abs(value);
  if (size >= 1000 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  return String(Number(value.toPrecision(3)));
}

/** A fraction as percent: 0.0123 -> "1.23 %". */
export function formatPercent(fraction: number | null | undefined): string {
  if (fraction === null || fraction === undefined || Number.isNaN(fraction)) return "–";
  return `${(fraction * 100).toFixed(2)} %`;
}
