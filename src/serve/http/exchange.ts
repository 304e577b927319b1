/**
 * One HTTP inference from its headers to the last byte of its answer.
 *
 * reading (body) -> decoding -> inferring -> encoding -> answered; a client that goes away in any of them ends it at once:
 * the request is cancelled, its place at the door is free, and whatever still comes back is dropped.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { TimeUs } from "../../core/time.js";
import { type BodyPool, DECODE_INLINE_BYTES_MAX, ENCODE_INLINE_BYTES_MAX } from "../../wire/body-pool.js";
import { type EncodedAnswer, encodeAnswer, jsonOutputBytes } from "../../wire/infer-answer.js";
import { decodeInferBody, decodeRawBody, type InferBody, readHeaderLength } from "../../wire/infer-body.js";
import type { ServingError } from "../../wire/serving-error.js";
import type { Admission } from "../admission.js";
import { type DoorOptions, servingErrorOf } from "../door.js";
import type { Gateway, InferHandler, InferReply } from "../gateway.js";
import { type AnswerPolicy, acceptedCompression, sendAnswer, sendError } from "./answer.js";
import type { ModelPath } from "./model-path.js";
import { announcedLength, decompress, readBody, tooLarge } from "./request-body.js";

export interface ExchangeContext extends AnswerPolicy {
  readonly gateway: Gateway;
  readonly options: DoorOptions;
  readonly admission: Admission;
  readonly bodyPool: BodyPool;
  readonly bodyBytesMax: number;
  isClosing: boolean;
}

export class InferExchange implements InferHandler {
  private bytes = 0;
  private isAdmitted = false;
  private isOver = false;
  private cancel: (() => void) | null = null;
  private body: InferBody | null = null;

  constructor(
    private readonly context: ExchangeContext,
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly path: ModelPath,
    private readonly receivedAt: TimeUs,
  ) {}

  start(): void {
    const { gateway, admission, bodyBytesMax } = this.context;
    try {
      const length = announcedLength(this.request);
      if (length !== null && length > bodyBytesMax) throw tooLarge(bodyBytesMax, String(length));
      gateway.model(this.path.name, this.path.version);
      admission.enter(length ?? 0);
      this.isAdmitted = true;
      this.bytes = length ?? 0;
      this.response.once("close", this.onClose);
      readBody(this.request, length, bodyBytesMax, this.grow, this.onBody);
    } catch (error) {
      this.fail(error);
    }
  }

  private readonly grow = (bytes: number): void => {
    this.context.admission.grow(bytes);
    this.bytes += bytes;
  };

  /** The answer has left, or the client has. */
  private readonly onClose = (): void => {
    if (this.isAdmitted) this.context.admission.leave(this.bytes);
    this.isAdmitted = false;
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
      decompress(body!, encoding, this.context.bodyBytesMax, (failure, plain) => {
        if (this.isOver) return;
        if (failure !== null) this.fail(failure);
        else
          try {
            this.grow(Math.max(0, plain!.byteLength - body!.byteLength));
            this.decode(plain!);
          } catch (refusal) {
            this.fail(refusal);
          }
      });
  };

  private decode(body: Buffer): void {
    try {
      const header = this.request.headers["inference-header-content-length"];
      const headerLength = readHeaderLength(header === undefined ? undefined : String(header), body.byteLength);
      if (headerLength === 0) {
        this.infer(decodeRawBody(body, this.context.gateway.model(this.path.name, this.path.version)), body.byteLength);
        return;
      }
      if ((headerLength ?? body.byteLength) <= DECODE_INLINE_BYTES_MAX) {
        this.infer(decodeInferBody(body, headerLength), body.byteLength);
        return;
      }
      const { byteLength } = body;
      this.context.bodyPool.decode(body, headerLength, (error, decoded) => {
        if (this.isOver) return;
        if (error !== null) this.fail(error);
        else this.infer(decoded!, byteLength);
      });
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
      if (!this.isOver) this.cancel = cancel;
    } catch (error) {
      this.fail(error);
    }
  }

  onReply(reply: InferReply): void {
    if (this.isOver) return;
    this.cancel = null;
    const { id, format } = this.body!;
    try {
      if (jsonOutputBytes(reply.outputs, format) <= ENCODE_INLINE_BYTES_MAX) {
        this.answer(encodeAnswer(reply, id, format));
        return;
      }
      this.context.bodyPool.encode(reply, id, format, (error, encoded) => {
        if (this.isOver) return;
        if (error !== null) this.fail(error);
        else this.answer(encoded!);
      });
    } catch (error) {
      this.fail(error);
    }
  }

  onError(error: ServingError): void {
    if (this.isOver) return;
    this.cancel = null;
    this.fail(error);
  }

  private answer(encoded: EncodedAnswer): void {
    this.isOver = true;
    this.context.admission.hold(encoded.byteLength);
    this.bytes += encoded.byteLength;
    const compression = acceptedCompression(this.request.headers["accept-encoding"]);
    sendAnswer(this.response, encoded, compression, this.context);
    this.context.options.onAnswer?.("http", "ok", "");
  }

  private fail(thrown: unknown): void {
    if (this.isOver) return;
    this.isOver = true;
    const error = servingErrorOf(thrown, this.context.options);
    sendError(this.response, error, this.context);
    this.context.options.onAnswer?.("http", error.code, error.details.reason ?? error.code);
  }
}
