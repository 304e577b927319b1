/** Classes of a pipeline's requests (their apps), of which a few at a time have something learnt of their own. */

/** With the default class, 0. */
export const CLASSES_MAX = 7;
/** A class that nobody asked for in so long is forgotten when another needs its place. */
const KEPT_US = 60_000_000;

/** Of no app, or of one for which there is no place. */
export const DEFAULT_CLASS = 0;

/** Numbers for names: a client can name what it likes, so there are few, and they come free again. */
export class RequestClasses {
  /** By number. */
  private readonly names: string[] = [""];
  private readonly askedAt = new Float64Array(CLASSES_MAX);
  private readonly numbers = new Map<string, number>();

  /** @param app "": none. */
  classOf(app: string, at: number): number {
    if (app === "") return DEFAULT_CLASS;
    const number = this.numbers.get(app) ?? this.placeFor(app, at);
    this.askedAt[number] = at;
    return number;
  }

  private placeFor(app: string, at: number): number {
    const { askedAt, names, numbers } = this;
    let number = names.length;
    if (number === CLASSES_MAX) {
      number = DEFAULT_CLASS + 1;
      for (let each = number + 1; each < CLASSES_MAX; each++) if (askedAt[each]! < askedAt[number]!) number = each;
      if (at - askedAt[number]! <= KEPT_US) return DEFAULT_CLASS;
      numbers.delete(names[number]!);
    }
    names[number] = app;
    numbers.set(app, number);
    return number;
  }
}
