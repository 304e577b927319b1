/**
 * A message that its method cannot read is its sender's fault. grpc-js would answer INTERNAL, as if it were ours, beneath
 * every interceptor: so reading never fails there, and reception.ts refuses what came of it.
 */
import type { ServiceDefinition } from "@grpc/grpc-js";
import { ServingError } from "../../wire/serving-error.js";

export class Unreadable {
  constructor(readonly error: ServingError) {}
}

/** The service, with methods that read every message, if as an `Unreadable`. */
export function readingAll(service: ServiceDefinition): ServiceDefinition {
  const methods = Object.entries(service).map(([name, method]) => {
    const requestDeserialize = (message: Buffer): unknown => {
      try {
        return method.requestDeserialize(message);
      } catch (error) {
        const text = `the message to ${method.path} must be its request: ${(error as Error).message}`;
        return new Unreadable(new ServingError("invalid-argument", text));
      }
    };
    return [name, { ...method, requestDeserialize }];
  });
  return Object.fromEntries(methods);
}
