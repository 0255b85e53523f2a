/** A traced program with Node's stock OTLP exporter, told where to send by the environment and nothing else. */

import { context, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";

const MARKER = "CONTENT-MARKER-7f3a";
const exporter = new OTLPTraceExporter();
const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
const tracer = provider.getTracer("test");

const agent = tracer.startSpan("invoke_agent triage", {
  attributes: { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "triage", note: MARKER },
});
const tool = {
  "gen_ai.operation.name": "execute_tool",
  "gen_ai.tool.name": "lookup",
  "gen_ai.tool.call.id": "c1",
  "gen_ai.tool.call.arguments": MARKER,
};
tracer.startSpan("execute_tool lookup", { attributes: tool }, trace.setSpan(context.active(), agent)).end();
agent.end();
await provider.forceFlush();
await provider.shutdown();
