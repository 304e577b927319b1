/**
 * One HTTP inference from its headers to the last byte of its answer.
 *
 * reading (body) -> decoding -> inferring -> encoding -> answered; a client that goes away in any of them ends it at once:
 * its place ends, and with it all that it has taken; whatever still comes back is dropped.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { TimeUs } from "../../core/time.js";
import { type BodyPool, DECODE_INLINE_BYTES_MAX, ENCODE_INLINE_BYTES_MAX } from "../../wire/infer/body-pool.js";
import { type EncodedAnswer, encodeAnswer, jsonOutputBytes } from "../../wire/infer/infer-answer.js";
import { decodeInferBody, decodeRawBody, type InferBody, readHeaderLength } from "../../wire/infer/infer-body.js";
import { withInputs } from "../../wire/infer/not-finite.js";
import { timeoutHintUs } from "../../wire/infer/timeout-hint.js";
import type { ServingError } from "../../wire/serving-error.js";
import { type DoorOptions, servingErrorOf } from "../door.js";
import type { Gateway, InferHandler, InferReply } from "../gateway.js";
import type { Place } from "../requests/admission.js";
import { type AnswerPolicy, acceptedCompression, sendAnswer, sendError } from "./answer.js";
import type { Inflations } from "./inflation.js";
import { announcedLength, readBody, tooLarge } from "./request-body.js";
import type { ModelPath } from "./request-path.js";

export interface ExchangeContext extends AnswerPolicy {
  readonly gateway: Gateway;
  readonly options: DoorOptions;
  readonly bodyPool: BodyPool;
  readonly inflations: Inflations;
  readonly bodyBytesMax: number;
  isClosing: boolean;
}

/**
 * Bytes that a body is taken to need more while it is JSON that is parsed: its text, and numbers of 8 bytes for what was
 * a digit and a comma, twice while their array grows. A body at the parser's bounds needs more, one of long numbers less.
 */
const PARSE_FACTOR = 4;

export class InferExchange implements InferHandler {
  /** Answered, or ended without one. */
  private isOver = false;
  /** The gateway has seen it: what becomes of it is counted there. */
  private isRequest = false;
  private cancel: (() => void) | null = null;
  private body: InferBody | null = null;

  constructor(
    private readonly context: ExchangeContext,
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly path: ModelPath,
    private readonly receivedAt: TimeUs,
    private readonly place: Place,
  ) {}

  start(): void {
    const { gateway, bodyBytesMax } = this.context;
    try {
      gateway.model(this.path.name, this.path.version);
      const length = announcedLength(this.request);
      if (length !== null && length > bodyBytesMax) throw tooLarge(bodyBytesMax, String(length));
      this.place.enter();
      this.place.onEnd(this.onGone);
      readBody(this.request, length, bodyBytesMax, this.place, this.onBody);
    } catch (error) {
      this.fail(error);
    }
  }

  /** The answer has left, or the client has. */
  private readonly onGone = (): void => {
    if (this.isOver) return;
    this.isOver = true;
    this.cancel?.();
    this.context.options.onAnswer?.("http", "cancelled", "cancelled");
  };

  private readonly onBody = (error: ServingError | null, body: Buffer | null): void => {
    if (this.isOver) return;
    if (error !== null) {
      this.fail(error);
      return;
    }
    const encoding = this.request.headers["content-encoding"];
    if (encoding === undefined) this.decode(body!);
    else
      this.context.inflations.undo(body!, encoding, this.context.bodyBytesMax, this.place, (failure, plain) => {
        if (this.isOver) return;
        if (failure !== null) this.fail(failure);
        else this.decode(plain!);
      });
  };

  private decode(body: Buffer): void {
    try {
      const spec = this.context.gateway.model(this.path.name, this.path.version);
      const header = this.request.headers["inference-header-content-length"];
      const headerLength = readHeaderLength(header === undefined ? undefined : String(header), body.byteLength);
      if (headerLength === 0) {
        this.infer(decodeRawBody(body, spec), body.byteLength);
        return;
      }
      const { byteLength } = body;
      const jsonLength = headerLength ?? byteLength;
      if (jsonLength <= DECODE_INLINE_BYTES_MAX) {
        this.infer(decodeInferBody(body, headerLength), byteLength);
        return;
      }
      const timeoutUs = timeoutHintUs(body.subarray(0, jsonLength)) ?? spec.sloUs ?? spec.defaultTimeoutUs;
      const needed = PARSE_FACTOR * jsonLength;
      this.place.grow(needed);
      const settle = (error: ServingError | null, decoded: InferBody | null): void => {
        this.cancel = null;
        this.place.hold(-needed);
        if (error !== null) this.fail(error);
        else this.infer(decoded!, byteLength);
      };
      const giveUp = this.context.bodyPool.decode(body, headerLength, settle, this.receivedAt + timeoutUs);
      if (!this.isOver && this.body === null) this.cancel = giveUp;
    } catch (error) {
      this.fail(error);
    }
  }

  private infer(body: InferBody, byteLength: number): void {
    this.body = body;
    const { traceparent } = this.request.headers;
    try {
      const cancel = this.context.gateway.infer(
        {
          model: this.path.name,
          version: this.path.version,
          id: body.id,
          inputs: body.inputs,
          outputs: body.outputs,
          receivedAt: this.receivedAt,
          timeoutUs: body.timeoutUs,
          transportDeadlineAt: null,
          parameters: body.parameters,
          traceparent: typeof traceparent === "string" ? traceparent : null,
          byteLength,
        },
        this,
      );
      this.isRequest = true;
      if (!this.isOver) this.cancel = cancel;
    } catch (error) {
      // The gateway has counted what it refuses.
      this.isRequest = true;
      this.fail(error);
    }
  }

  onReply(reply: InferReply): void {
    if (this.isOver) return;
    this.cancel = null;
    const { id, format, inputs } = this.body!;
    try {
      if (jsonOutputBytes(reply.outputs, format) <= ENCODE_INLINE_BYTES_MAX) {
        this.answer(encodeAnswer(reply, id, format));
        return;
      }
      this.cancel = this.context.bodyPool.encode(reply, id, format, (error, encoded) => {
        this.cancel = null;
        if (error !== null) this.fail(withInputs(error, reply.outputs, inputs));
        else this.answer(encoded!);
      });
    } catch (error) {
      this.fail(withInputs(error, reply.outputs, inputs));
    }
  }

  onError(error: ServingError): void {
    if (this.isOver) return;
    this.cancel = null;
    this.fail(error);
  }

  private answer(encoded: EncodedAnswer): void {
    this.isOver = true;
    this.place.hold(encoded.byteLength);
    const compression = acceptedCompression(this.request.headers["accept-encoding"]);
    sendAnswer(this.response, encoded, compression, this.place, this.context);
    this.context.options.onAnswer?.("http", "ok", "");
  }

  private fail(thrown: unknown): void {
    if (this.isOver) return;
    this.isOver = true;
    const error = servingErrorOf(thrown, this.context.options);
    if (!this.isRequest) this.refused(error);
    sendError(this.response, error, this.context);
    this.context.options.onAnswer?.("http", error.code, error.details.reason ?? error.code);
  }

  /** The gateway has not seen it: told here, for counters and traces. */
  private refused(error: ServingError): void {
    const { traceparent } = this.request.headers;
    this.context.gateway.refused(
      {
        model: this.path.name,
        version: this.path.version,
        receivedAt: this.receivedAt,
        traceparent: typeof traceparent === "string" ? traceparent : null,
      },
      error,
    );
  }
}
