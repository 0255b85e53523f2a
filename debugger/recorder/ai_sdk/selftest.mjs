/**
 * Runs the installed SDK with a scripted model before anything is recorded: it must be of a known version, and
 * must do everything that the evidence rests on. The version is what the SDK itself says in its requests.
 */

import { Loop } from "./loop.mjs";
import { Problem } from "./outbox.mjs";

export const MAJORS = [6, 7];
const AGENT = /(?:^|\s)ai\/((\d+)\.\d+\.\d+\S*)/;
const NEEDED = ["generateText", "streamText", "hasToolCall", "jsonSchema", "ToolLoopAgent"];
const TOOL = "branchgate_probe";
const LIMIT = 2;
/** The model stops calling by itself after this, whatever an unknown SDK makes of the limit. */
const MOST_CALLS = 5;

/** @param {any} sdk @returns {Promise<{version: string, major: number}>} */
export async function versionOf(sdk) {
  const missing = NEEDED.find((name) => sdk?.[name] === undefined) ?? (counts(sdk) ? undefined : "isStepCount");
  if (missing !== undefined) throw new Problem(`not the AI SDK that this recorder knows (no ${missing})`);
  const model = scripted();
  await sdk.generateText({ ...options(sdk, model), stopWhen: counts(sdk)(1) }).catch(() => undefined);
  const found = AGENT.exec(model.asked);
  if (found === null) throw new Problem("the AI SDK did not say its version: self-test failed");
  const major = Number(found[2]);
  if (!MAJORS.includes(major)) {
    throw new Problem(`ai ${found[1]} is not known here; this recorder knows ai ${MAJORS.join(" and ")}`);
  }
  return { version: found[1], major };
}

/** @param {import("./branchgate.mjs").Shared} shared @param {any} sdk */
export async function selfTest(shared, sdk) {
  for (const run of [generated, streamed, byAgent]) {
    const loop = new Loop(shared, run.name, {}, () => undefined);
    // What it threw shows in what was seen.
    await run(sdk, loop).catch((/** @type {unknown} */ error) => loop.threw(error));
    const seen = JSON.stringify(pick(loop.evidence(null)));
    if (seen !== EXPECTED) throw new Problem(`ai ${shared.version} does not do what is expected: self-test failed`);
  }
}

/** @param {any} sdk @param {Loop} loop */
async function generated(sdk, loop) {
  const result = await sdk.generateText(loop.ofCall({ ...options(sdk, scripted()), stopWhen: counts(sdk)(LIMIT) }));
  loop.returned(result);
}

/** @param {any} sdk @param {Loop} loop */
async function streamed(sdk, loop) {
  const given = loop.ofCall({ ...options(sdk, scripted()), stopWhen: counts(sdk)(LIMIT) });
  await sdk.streamText({ ...given, experimental_transform: loop.watchStream() }).consumeStream();
}

/** @param {any} sdk @param {Loop} loop */
async function byAgent(sdk, loop) {
  const { prompt, ...settings } = { ...options(sdk, scripted()), stopWhen: counts(sdk)(LIMIT) };
  const prepareCall = (/** @type {any} */ args) => ({ ...args, ...loop.prepared(args, false) });
  const agent = new sdk.ToolLoopAgent({ ...settings, prepareCall });
  loop.returned(await agent.generate(loop.ofAgentCall({ prompt }, settings)));
}

/** @param {any} sdk */
function counts(sdk) {
  return sdk.isStepCount ?? sdk.stepCountIs;
}

/** @param {any} sdk @param {any} model */
function options(sdk, model) {
  const inputSchema = sdk.jsonSchema({ type: "object", properties: {} });
  return {
    model,
    prompt: "probe",
    maxRetries: 0,
    tools: { [TOOL]: { inputSchema, execute: async () => "ok" } },
    // Nobody else's telemetry is to show what is only a test.
    telemetry: { isEnabled: false },
    experimental_telemetry: { isEnabled: false },
  };
}

/** @returns {any} a model that calls the tool in every step, and keeps what it was asked with */
function scripted() {
  const usage = {
    inputTokens: { total: 2, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: 1, text: undefined, reasoning: undefined },
  };
  let turns = 0;
  const turn = () => {
    turns += 1;
    const call = { type: "tool-call", toolCallId: `probe-${turns}`, toolName: TOOL, input: "{}" };
    const unified = turns > MOST_CALLS ? "stop" : "tool-calls";
    return { content: unified === "stop" ? [] : [call], finishReason: { unified, raw: unified }, usage };
  };
  const model = {
    specificationVersion: "v3",
    provider: "branchgate",
    modelId: "self-test",
    supportedUrls: {},
    asked: "",
    async doGenerate(/** @type {any} */ { headers }) {
      model.asked = String(headers?.["user-agent"] ?? "");
      return { ...turn(), warnings: [] };
    },
    async doStream() {
      const { content, ...end } = turn();
      const parts = [{ type: "stream-start", warnings: [] }, ...content, { type: "finish", ...end }];
      return { stream: /** @type {any} */ (ReadableStream).from(parts) };
    },
  };
  return model;
}

const STEP = { finish_reason: "tool-calls", calls: 1, results: 1, tokens: 3 };
const EXPECTED = JSON.stringify({
  conditions: [{ n: LIMIT, evaluations: [{ at_steps: LIMIT, result: true }] }],
  steps: Array.from({ length: LIMIT }, () => STEP),
  outside: 0,
  end: { kind: "returned", finish_reason: "tool-calls", steps: LIMIT },
});

/** @param {any} evidence @returns {unknown} what every known version gives alike */
function pick({ stop_conditions: conditions, steps, calls_outside_steps: outside, end }) {
  return {
    conditions: conditions.map((/** @type {any} */ each) => ({ n: each.params?.n, evaluations: each.evaluations })),
    steps: steps.map((/** @type {any} */ step) => ({
      finish_reason: step.finish_reason,
      calls: step.tool_calls.length,
      results: step.tool_results.length,
      tokens: step.usage.total,
    })),
    outside: outside.length,
    end,
  };
}
