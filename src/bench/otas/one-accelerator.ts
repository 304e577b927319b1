/**
 * What do ways of choosing batches and gammas earn on one accelerator? Only that: no delays, batches take what the profile says, and a request in
 * time earns its utility times the accuracy of its task.
 */
import { NOT_EXECUTED } from "../../policies/otas/allocation/allocation.js";
import type { ElasticLoad } from "./elastic-load.js";
import { type ElasticProfile, QUERY_TYPES } from "./elastic-profile.js";

export interface Contender {
  arrived(request: number, at: number): void;
  /** @param members written: who runs now; they are no longer asked about. @returns the gamma, NOT_EXECUTED: nothing runs until somebody arrives. */
  next(now: number, members: number[]): number;
}

export interface Earned {
  /** Of what all requests in time with the best gamma would: §V's ceiling. */
  readonly share: number;
  /** Of the requests. */
  readonly inTime: number;
  readonly right: number;
  readonly batchSize: number;
}

export function serve(load: ElasticLoad, profile: ElasticProfile, contender: Contender): Earned {
  const { count, arrivalAt, dueAt, type } = load;
  const gammas = profile.gammas.length;
  const accuracyOf = (request: number, gamma: number): number =>
    profile.accuracy[QUERY_TYPES[type[request]!]!.task * gammas + gamma]!;
  const utilityOf = (request: number): number => QUERY_TYPES[type[request]!]!.utility;
  const members: number[] = [];
  let [earned, inTime, right, batches, ran] = [0, 0, 0, 0, 0];
  let now = 0;
  for (let arrived = 0; ; ) {
    for (; arrived < count && arrivalAt[arrived]! <= now; arrived++) contender.arrived(arrived, arrivalAt[arrived]!);
    members.length = 0;
    const gamma = contender.next(now, members);
    if (gamma === NOT_EXECUTED) {
      if (arrived === count) break;
      now = arrivalAt[arrived]!;
      continue;
    }
    now += profile.timeUs(gamma, members.length);
    batches++;
    ran += members.length;
    for (const member of members) {
      if (now > dueAt[member]!) continue;
      inTime++;
      right += accuracyOf(member, gamma);
      earned += utilityOf(member) * accuracyOf(member, gamma);
    }
  }
  let ceiling = 0;
  for (let request = 0; request < count; request++) ceiling += utilityOf(request) * accuracyOf(request, gammas - 1);
  return { share: earned / ceiling, inTime: inTime / count, right: right / count, batchSize: ran / batches };
}
