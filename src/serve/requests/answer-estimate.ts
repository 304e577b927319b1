/** How long an answer would take, counted from the receipt of its request, by what is known now. */

import type { AcceleratorGroup } from "../groups/accelerator-group.js";
import type { ServedModel, ServedQueue } from "../models/served-model.js";
import type { InFlight } from "./in-flight.js";

export interface AnswerEstimate {
  readonly estimateUs: number;
  /** By how much more or less is usual. */
  readonly estimateSpreadUs: number;
}

/**
 * Of a request that runs, or that waits and would be the next of its queue behind all that waits in its group: then it is no
 * less than what the scheduler gave it up by, which knows its plan and not what stands before it.
 */
export function answerEstimate(request: InFlight, now: number): AnswerEstimate {
  const { model, queue, batch, receivedAt, execEndAt, deadline, lateByUs } = request;
  if (execEndAt >= 0) return rounded(now - receivedAt, 0);
  if (batch === null) {
    const own = entryEstimate(model, queue, receivedAt, now, request.workUs);
    const leastUs = lateByUs === 0 ? 0 : Math.round(deadline + lateByUs - receivedAt);
    return leastUs <= own.estimateUs ? own : { ...own, estimateUs: leastUs };
  }
  const { leftUs, guessUs } = model.group.leftOf(batch, now);
  const aheadUs = leftUs + model.meter.current.responseUs;
  return rounded(now - receivedAt + aheadUs, guessUs + queue.ratio.spread * batch.predictedUs);
}

/** Of a request that has not entered. @param queue null: it is not known which it would have. @param ownUs its part of what waits. */
export function entryEstimate(
  model: ServedModel,
  queue: ServedQueue | null,
  receivedAt: number,
  now: number,
  ownUs = 0,
): AnswerEstimate {
  const { controlUs, responseUs } = model.meter.current;
  const { waitUs, guessUs } = model.group.backlog(now, ownUs);
  const known = queue ?? [...model.queues.values()][0];
  const aloneUs = known === undefined ? model.times.us(1, null) : known.aloneUs * known.ratio.mean;
  const workUs = waitUs - guessUs + aloneUs;
  const spread = known?.ratio.spread ?? 0;
  return rounded(now - receivedAt + controlUs + waitUs + aloneUs + responseUs, guessUs + spread * workUs);
}

const rounded = (us: number, spreadUs: number): AnswerEstimate => ({
  estimateUs: Math.round(us),
  estimateSpreadUs: Math.round(spreadUs),
});

/** Whole seconds until what the group has now is served, at least 1. */
export const retryAfterS = (group: AcceleratorGroup, now: number): number =>
  Math.max(1, Math.ceil(group.backlog(now).waitUs / 1e6));
