/** Agents that hand over one to the next, traced by Node's stock exporter: `node crew.mjs AGENT…`. */

import { context, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";

const MARKER = "CONTENT-MARKER-7f3a";
const exporter = new OTLPTraceExporter();
const resource = resourceFromAttributes({ "branchgate.workflow": process.env.WORKFLOW });
const provider = new TracerProvider({ resource, spanProcessors: [new BatchSpanProcessor({ exporter })] });
const tracer = provider.getTracer("crew");

const workflow = tracer.startSpan("invoke_workflow", {
  attributes: { "gen_ai.operation.name": "invoke_workflow", note: MARKER },
});
const within = trace.setSpan(context.active(), workflow);
let links = [];
for (const name of process.argv.slice(2)) {
  const attributes = { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name, note: MARKER };
  const agent = tracer.startSpan(`invoke_agent ${name}`, { attributes, links }, within);
  links = [{ context: agent.spanContext(), attributes: { "app.link.kind": "handoff" } }];
  agent.end();
}
workflow.end();
await provider.forceFlush();
await provider.shutdown();
