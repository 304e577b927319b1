/** A bug in a caller, never a property of load or input. Assertions stay on in production and end the process. */
export class InvariantViolation extends Error {
  override readonly name = "InvariantViolation";
}

export function invariant(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantViolation(message);
}

/** For hot paths, where even building an unused message costs: `if (!condition) violated(message)`. */
export function violated(message: string): never {
  throw new InvariantViolation(message);
}

export function assertNever(value: never): never {
  throw new InvariantViolation(`unhandled case: ${JSON.stringify(value)}`);
}
