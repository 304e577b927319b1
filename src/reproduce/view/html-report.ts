/** The report as one HTML file that needs nothing else: figures as SVG, tables, what was promised and found. */
import { darkStyle } from "../chart.js";
import { PAPERS, type Table } from "../experiment.js";
import type { ExperimentReport, ReproductionReport } from "../report.js";
import { shortCell } from "./short-cell.js";

export interface DrawnFigure {
  readonly id: string;
  readonly svg: string;
}

/** @param figures drawn, by id. */
export function renderHtml(report: ReproductionReport, figures: ReadonlyMap<string, string>): string {
  const contents = report.experiments
    .map(({ name, title }) => `<li><a href="#${anchor(name)}">${escapeHtml(title)}</a></li>`)
    .join("\n");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Rubato: ${escapeHtml(report.command)}</title>
<style>
${STYLE}
${darkStyle("svg ")}
</style>
</head>
<body>
<header>
<h1>${escapeHtml(evaluationsOf(report))}, run again</h1>
<p>Made by <code>${escapeHtml(report.command)}</code> with Rubato ${escapeHtml(report.version)}, result format ${report.format}, size ${report.size}.
Simulated numbers depend on nothing but seeds and settings; where a clock was read it says so.</p>
<nav><ol>
${contents}
</ol></nav>
</header>
<main>
${report.experiments.map((experiment) => renderExperiment(experiment, figures)).join("\n")}
</main>
</body>
</html>
`;
}

/** "Symphony's evaluation" */
function evaluationsOf({ experiments }: ReproductionReport): string {
  const papers = [...new Set(experiments.map(({ name }) => PAPERS[name.split("/")[0]!] ?? name))];
  return papers.map((paper) => `${paper}'s evaluation`).join(" and ");
}

function renderExperiment(experiment: ExperimentReport, figures: ReadonlyMap<string, string>): string {
  const { name, title, about, scope, command, presentation } = experiment;
  const findings = presentation.findings.map(
    ({ promise, found, holds }) =>
      `<tr class="${holds ? "holds" : "missed"}"><td>${holds ? "holds" : "missed"}</td><td>${escapeHtml(promise)}</td><td>${escapeHtml(shortCell(found))}</td></tr>`,
  );
  return `<section id="${anchor(name)}">
<h2>${escapeHtml(title)}</h2>
<p>${escapeHtml(about)}</p>
<p class="how"><code>${escapeHtml(command)}</code> · ${escapeHtml(scope)} · ${experiment.points} points</p>
${presentation.figures
  .map(
    (figure) =>
      `<figure id="${anchor(figure.id)}">${figures.get(figure.id) ?? ""}<figcaption>${escapeHtml(figure.caption)}</figcaption></figure>`,
  )
  .join("\n")}
${findings.length === 0 ? "" : `<div class="wide"><table class="findings"><thead><tr><th></th><th>promised</th><th>found</th></tr></thead><tbody>${findings.join("")}</tbody></table></div>`}
${presentation.tables.map(renderTable).join("\n")}
${presentation.notes.map((note) => `<p class="note">${escapeHtml(note)}</p>`).join("\n")}
</section>`;
}

function renderTable({ title, columns, rows }: Table): string {
  const cell = (tag: string, text: string, column: number): string =>
    `<${tag}${columns[column]?.align === "right" ? ' class="number"' : ""}>${escapeHtml(text)}</${tag}>`;
  const head = columns.map((column, index) => cell("th", column.title, index)).join("");
  const body = rows
    .map((row) => `<tr>${row.map((text, index) => cell("td", shortCell(text), index)).join("")}</tr>`)
    .join("\n");
  return `<h3>${escapeHtml(title)}</h3>
<div class="wide"><table><thead><tr>${head}</tr></thead><tbody>
${body}
</tbody></table></div>`;
}

const anchor = (name: string): string => name.replace(/[^a-zA-Z0-9]+/g, "-");

export const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

const STYLE = `
:root { --ink: #1f2933; --soft: #52606d; --line: #d5dae0; --paper: #ffffff; --panel: #f6f8fa; --good: #1a7f4b; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #a6b0ba; --line: #39414a; --paper: #14181d; --panel: #1c2128; --good: #4fcf94; --bad: #ff8f85; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.25rem; margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 0.95rem; margin: 1.5rem 0 0.4rem; }
a { color: inherit; }
nav ol { columns: 2 18rem; padding-left: 1.2rem; color: var(--soft); font-size: 0.9rem; }
code { font: 0.86em ui-monospace, SFMono-Regular, Menlo, monospace; background: var(--panel); padding: 0.1em 0.35em; border-radius: 4px; }
.how, .note, figcaption { color: var(--soft); font-size: 0.88rem; }
figure { margin: 1.25rem 0; padding: 0.75rem; background: var(--panel); border-radius: 8px; }
figure svg { display: block; max-width: 100%; height: auto; }
figcaption { margin-top: 0.5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.86rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.75rem 0.25rem 0; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; }
.number { text-align: right; white-space: nowrap; }
.holds td:first-child { color: var(--good); }
.missed td:first-child { color: var(--bad); font-weight: 600; }
`;
