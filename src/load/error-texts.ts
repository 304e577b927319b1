/** What was said of failures, counted by text; texts that differ in their numbers alone count as the first of them. */
export class ErrorTexts {
  /** The rest is not kept: a server may put anything in a text. */
  static readonly MAX = 8;
  static readonly LETTERS_MAX = 300;
  readonly #counts = new Map<string, { readonly text: string; count: number }>();

  add(said: string, count = 1): void {
    const text = said.slice(0, ErrorTexts.LETTERS_MAX).trim();
    if (text === "") return;
    const key = text.replaceAll(/[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?/g, "0");
    const known = this.#counts.get(key);
    if (known !== undefined) known.count += count;
    else if (this.#counts.size < ErrorTexts.MAX) this.#counts.set(key, { text, count });
  }

  toJSON(): Record<string, number> {
    return Object.fromEntries([...this.#counts.values()].map(({ text, count }) => [text, count]));
  }
}
