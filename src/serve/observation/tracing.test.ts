import { InMemorySpanExporter } from "@opentelemetry/sdk-trace-node";
import { afterEach, describe, expect, it } from "vitest";
import { FakeServer, group, modelSpec } from "../../../test/fakes/fake-server.js";
import { ServingError } from "../../wire/serving-error.js";
import { parseTraceparent, Tracer } from "./tracing.js";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
let fake: FakeServer;

async function start(sample: number): Promise<InMemorySpanExporter> {
  const exporter = new InMemorySpanExporter();
  const tracer = await Tracer.create({ endpoint: null, sample, version: "0", exporter, random: () => 0.5 }, 0);
  fake = await new FakeServer([modelSpec()], [group(1)], { tracer }).start();
  return exporter;
}

afterEach(async () => {
  await fake.server.driver.idle();
  expect(fake.broken).toBeNull();
});

describe("tracing (W3C trace context)", () => {
  it("makes the client's span the parent of ours, with a span per stage inside", async () => {
    const exporter = await start(0);
    await fake.infer({ traceparent: `00-${TRACE}-${PARENT}-01`, parameters: { app: "chat" } });
    await fake.server.driver.idle();
    const spans = exporter.getFinishedSpans();
    const root = spans.find(({ name }) => name === "infer")!;
    expect(root.spanContext().traceId).toBe(TRACE);
    expect(root.parentSpanContext?.spanId).toBe(PARENT);
    expect(root.attributes).toMatchObject({ "rubato.outcome": "finished", "rubato.app": "chat", "rubato.kind": 1 });
    const stages = spans.filter((span) => span !== root);
    expect(stages.map(({ name }) => name).sort()).toEqual([
      "accelerator-wait",
      "answer",
      "batch-wait",
      "dispatch",
      "execute",
    ]);
    for (const stage of stages) expect(stage.parentSpanContext?.spanId).toBe(root.spanContext().spanId);
  });

  it("says in the trace why a request was not served", async () => {
    const exporter = await start(0);
    const ends = [fake.infer(), fake.infer({ timeoutMs: 3, traceparent: `00-${TRACE}-${PARENT}-01` })];
    await Promise.all(ends);
    await fake.server.driver.idle();
    const root = exporter.getFinishedSpans().find(({ name }) => name === "infer")!;
    expect(root.attributes).toMatchObject({
      "rubato.outcome": "dropped",
      "rubato.reason": "expired",
      "rubato.app": "",
    });
  });

  it("keeps quiet when the client decided against it, and samples those that did not decide", async () => {
    const exporter = await start(0.4);
    await fake.infer({ traceparent: `00-${TRACE}-${PARENT}-00` });
    await fake.infer();
    await fake.server.driver.idle();
    expect(exporter.getFinishedSpans()).toEqual([]);
    const always = await start(0.6);
    await fake.infer();
    await fake.server.driver.idle();
    expect(always.getFinishedSpans().filter(({ name }) => name === "infer").length).toBe(1);
  });

  it("has a span for what is refused, by a door or by the gateway, in the client's trace; refusals are counted once", async () => {
    const exporter = await start(0);
    const traceparent = `00-${TRACE}-${PARENT}-01`;
    await fake.infer({ inputs: [], traceparent });
    const call = { model: "m", version: "", receivedAt: fake.call().receivedAt, traceparent };
    fake.server.refused(call, new ServingError("resource-exhausted", "full", { reason: "in-flight-full" }));
    fake.server.refused(call, new ServingError("unavailable", "not yet", { reason: "loading" }));
    fake.server.refused(call, new ServingError("not-found", "nobody", { reason: "unknown-model" }));
    const spans = exporter.getFinishedSpans();
    expect(spans.map((span) => span.attributes["rubato.reason"])).toEqual([
      "invalid-argument",
      "in-flight-full",
      "loading",
      "unknown-model",
    ]);
    for (const span of spans)
      expect([span.name, span.parentSpanContext?.spanId, span.attributes["rubato.outcome"]]).toEqual([
        "infer",
        PARENT,
        "refused",
      ]);
    const counted = (reason: string): Promise<number> =>
      fake.metric("rubato_requests_refused_total", [`reason="${reason}"`]);
    expect([await counted("in-flight-full"), await counted("loading"), await counted("unknown-model")]).toEqual([
      1, 1, 0,
    ]);
  });

  it("takes a malformed header as none", () => {
    for (const header of ["", "00-x-y-01", `00-${"0".repeat(32)}-${PARENT}-01`, `ff-${TRACE}-${PARENT}-01`])
      expect(parseTraceparent(header)).toBeNull();
  });
});
