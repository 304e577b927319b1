/** What happens in a run, one plain record each: for scripts that count for themselves. docs/pipelines.md has every field. */
import type { ExpandedScenario } from "../config/scenario/expand-scenario.js";
import { DROP_REASONS, DROPPED, FAIL_CAUSES, FAILED, OUTCOMES } from "../core/outcome.js";
import type { BatchId } from "../core/tables/batch-table.js";
import type { SimulatedGroup } from "./simulated-group.js";

/** A request as a member of a batch; the module where it is a part of a pipeline's. */
export interface EventMember {
  readonly request: number;
  readonly module?: string;
}

export type SimulatedEvent =
  | {
      readonly event: "arrived";
      readonly at_us: number;
      readonly request: number;
      /** Model or pipeline. */
      readonly of: string;
      readonly deadline_us: number;
    }
  | {
      /** A request is in the batch that is gathered for a worker (policy `pard`), from then on or, told again, from a later moment on. */
      readonly event: "joined";
      readonly at_us: number;
      readonly request: number;
      readonly module?: string;
    }
  | {
      readonly event: "ran";
      readonly start_us: number;
      readonly end_us: number;
      readonly group: string;
      readonly accelerator: number;
      readonly model: string;
      /** It did not end: its accelerator was lost, or it was given up. */
      readonly lost: boolean;
      /** How much work was chosen: of an elastic model its gamma, or which model of a family; absent: nobody chose. */
      readonly variant?: string;
      readonly members: readonly EventMember[];
    }
  | {
      readonly event: "ended";
      readonly at_us: number;
      readonly request: number;
      readonly of: string;
      /** A part in this module ended; absent: the whole request. */
      readonly module?: string;
      readonly outcome: string;
      /** Drop reason or failure cause; absent where there is none. */
      readonly reason?: string;
    };

export type EventListener = (event: SimulatedEvent) => void;

export class EventLines {
  private readonly scenario: ExpandedScenario;
  private readonly listener: EventListener;

  constructor(scenario: ExpandedScenario, listener: EventListener) {
    this.scenario = scenario;
    this.listener = listener;
  }

  arrived(of: string, request: number, at: number, deadline: number): void {
    this.listener({ event: "arrived", at_us: at, request, of, deadline_us: deadline });
  }

  joined(member: EventMember, at: number): void {
    this.listener({ event: "joined", at_us: at, ...member });
  }

  /** @param memberOf what a request's tag stands for. */
  ran(
    batch: BatchId,
    startAt: number,
    endAt: number,
    lost: boolean,
    group: SimulatedGroup,
    memberOf: (tag: number) => EventMember,
  ): void {
    const { batches, requests } = group.scheduler;
    const members: EventMember[] = [];
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!)
      members.push(memberOf(requests.tag[member]!));
    const model = this.scenario.models[group.models[batches.queue[batch]!]!]!;
    const variant = batches.variant[batch]! === 0 ? undefined : model.elastic?.variants[batches.variant[batch]! - 1];
    this.listener({
      event: "ran",
      start_us: startAt,
      end_us: endAt,
      group: group.name,
      accelerator: group.acceleratorOf(batch),
      model: model.name,
      lost,
      ...(variant === undefined ? {} : { variant: variant.name }),
      members,
    });
  }

  ended(of: string, { request, module }: EventMember, outcome: number, reason: number, at: number): void {
    const why = outcome === DROPPED ? DROP_REASONS[reason] : outcome === FAILED ? FAIL_CAUSES[reason] : undefined;
    this.listener({
      event: "ended",
      at_us: at,
      request,
      of,
      ...(module === undefined ? {} : { module }),
      outcome: OUTCOMES[outcome]!,
      ...(why === undefined ? {} : { reason: why }),
    });
  }
}
