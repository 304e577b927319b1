/** Draws the first `count` places of a list from all of it, in place (Fisher and Yates). @param uniform in [0, 1). */
export function shuffle<T>(list: T[], count: number, uniform: () => number): void {
  for (let place = 0; place < count; place++) {
    const other = place + Math.floor(uniform() * (list.length - place));
    [list[place], list[other]] = [list[other]!, list[place]!];
  }
}
