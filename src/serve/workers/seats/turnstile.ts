/** One at a time, in order of arrival: model loads and warm-ups, so that a restart of all workers is not a storm. */
export class Turnstile {
  private last: Promise<unknown> = Promise.resolve();

  pass<T>(action: () => Promise<T>): Promise<T> {
    const result = this.last.then(action, action);
    this.last = result.catch(() => {});
    return result;
  }
}
