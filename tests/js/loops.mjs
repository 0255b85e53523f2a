/**
 * Loops of the Vercel AI SDK that end in every way, run for real: `node loops.mjs PACKAGE FOLDER`.
 * Each is recorded into a folder of its own name; what the program itself saw is printed as JSON.
 */

import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { MARKER, breaks, calls, says, scripted, throws } from "./model.mjs";

const [name, folder, module] = process.argv.slice(2);
const ai = await import(name);
const mocks = await import(`${name}/test`);
const { attach, tokenBudget } = await import(pathToFileURL(module).href);

const steps = ai.isStepCount ?? ai.stepCountIs;
const inputSchema = ai.jsonSchema({ type: "object", properties: { text: { type: "string" } } });
const never = new Promise(() => {});
const untilCut = (_, { abortSignal }) =>
  new Promise((_done, cut) => abortSignal.addEventListener("abort", () => cut(abortSignal.reason)));
const fail = () => {
  throw new TypeError(MARKER);
};

function toolbox(changes = {}) {
  const tool = (execute, more = {}) => ai.tool({ description: MARKER, inputSchema, execute, ...more });
  return {
    search: tool(async () => MARKER),
    finish: tool(async () => MARKER),
    bad: tool(fail),
    slow: tool(untilCut),
    deaf: tool(() => never),
    refund: tool(async () => MARKER, { needsApproval: true }),
    done: ai.tool({ description: MARKER, inputSchema }),
    ...changes,
  };
}

/** What every call of a scenario is made with; `turns` is the model's script. */
function call(turns, more = {}) {
  const { tokens, ...options } = more;
  return {
    model: scripted(mocks, turns, { tokens }),
    tools: toolbox(),
    prompt: MARKER,
    maxRetries: 0,
    stopWhen: steps(5),
    ...options,
  };
}

async function generate(recorder, turns, more, about) {
  return await recorder.generateText(call(turns, more), about);
}

async function stream(recorder, turns, more, about) {
  const result = recorder.streamText({ onError: () => {}, ...call(turns, more) }, about);
  await result.consumeStream();
  return result;
}

async function agent(recorder, turns, more = {}, about) {
  const { prompt, timeout, abortSignal, ...settings } = call(turns, more);
  const made = new recorder.ToolLoopAgent({ id: "clerk", instructions: MARKER, ...settings });
  return await made.generate({ prompt, timeout, abortSignal }, about);
}

async function agentStream(recorder, turns, more = {}, about) {
  const { prompt, timeout, abortSignal, ...settings } = call(turns, more);
  const made = new recorder.ToolLoopAgent({ id: "clerk", onError: () => {}, ...settings });
  const result = await made.stream({ prompt, timeout, abortSignal }, about);
  await result.consumeStream();
  return result;
}

/** Options with a signal that is aborted once the tool runs. */
function abortedBy(tool, reason) {
  const controller = new AbortController();
  const tools = toolbox();
  const { execute } = tools[tool];
  tools[tool].execute = (...given) => {
    setTimeout(() => controller.abort(reason));
    return execute(...given);
  };
  return { tools, abortSignal: controller.signal };
}

/** Answer what a loop asked, as the SDK's pages say to. */
async function answered(result, approved) {
  const { messages } = await result.response;
  const asked = messages.flatMap(({ content }) => content).filter(({ type }) => type === "tool-approval-request");
  const content = asked.map(({ approvalId }) => ({ type: "tool-approval-response", approvalId, approved }));
  return [{ role: "user", content: MARKER }, ...messages, { role: "tool", content }];
}

const owner = { owner: "approver-1", deadline: "2026-12-01T09:00:00Z", resumeToken: `token ${MARKER}` };
const search = calls("search");
const done = says();

/** Ways that do not depend on how the SDK is called. */
const anyWay = {
  natural_finish: (way, r) => way(r, [search, done]),
  done_tool: (way, r) => way(r, [search, calls("done")]),
  finish_tool: (way, r) => way(r, [search, calls("finish")], { stopWhen: [steps(5), ai.hasToolCall("finish")] }),
  step_limit: (way, r) => way(r, [search], { stopWhen: steps(3) }),
  token_budget: (way, r) => way(r, [search], { stopWhen: [steps(9), tokenBudget(900)], tokens: 500 }),
  output_limit: (way, r) => way(r, [search, says("length")]),
  filtered: (way, r) => way(r, [says("content-filter")]),
  aborted: (way, r) => way(r, [search, calls("slow")], abortedBy("slow", new Error(MARKER))),
  aborted_plainly: (way, r) => way(r, [calls("slow")], abortedBy("slow")),
  approval_unrouted: (way, r) => way(r, [search, calls("refund")]),
  approval_routed: (way, r) => way(r, [calls("refund")], {}, { approval: () => owner }),
  tool_failed: (way, r) => way(r, [calls("bad"), done]),
  unknown_tool: (way, r) => way(r, [calls(`no ${MARKER}`), done]),
  provider_failed: (way, r) => way(r, [throws()]),
  provider_failed_later: (way, r) => way(r, [search, throws()]),
  limit_reached_by_finishing: (way, r) => way(r, [search, done], { stopWhen: steps(2) }),
};

/** Those whose timer must not run out before the work is done; they wait side by side. */
const slowly = {
  timed_out: (way, r) => way(r, [calls("slow")], { timeout: 5_000 }),
  step_timed_out: (way, r) => way(r, [calls("slow")], { timeout: { stepMs: 5_000 } }),
  timed_out_after_work: (way, r) => way(r, [search, calls("slow")], { timeout: { totalMs: 5_000 } }),
};

const ways = { generate, stream, agent, agentStream };

const own = {
  default_of_a_call: (r) => generate(r, [search], { stopWhen: undefined }),
  default_of_an_agent: (r) => agent(r, [search], { stopWhen: undefined }),
  never_asked_to_stop: (r) => generate(r, [search, done], { stopWhen: ai.isLoopFinished() }),
  finish_in_an_earlier_step: (r) => {
    const late = ({ steps: all }) => all.length > 1 && ai.hasToolCall("finish")({ steps: all });
    return generate(r, [calls("finish"), search, done], { stopWhen: [steps(5), late] });
  },
  own_condition_at_the_limit: (r) => {
    return generate(r, [search], { stopWhen: [steps(3), ({ steps: all }) => all.length === 2] });
  },
  approval_at_the_limit: (r) => generate(r, [search, calls("refund")], { stopWhen: steps(2) }),
  failed_and_done_again: (r) => {
    let tries = 0;
    const flaky = () => (tries++ === 0 ? fail() : MARKER);
    return generate(r, [search, search, done], { tools: toolbox({ search: ai.tool({ inputSchema, execute: flaky }) }) });
  },
  broken_stream: (r) => stream(r, [search, breaks()]),
  resumed: async (r) => {
    const first = await generate(r, [search, calls("refund")], { stopWhen: steps(2) });
    const messages = await answered(first, true);
    await generate(r, [search], { prompt: undefined, messages, stopWhen: steps(2) });
    await stream(r, [done], { prompt: undefined, messages, stopWhen: steps(2) });
  },
  denied: async (r) => {
    const first = await agent(r, [calls("refund")]);
    await generate(r, [done], { prompt: undefined, messages: await answered(first, false) });
  },
  approved_and_failed: async (r) => {
    const tools = toolbox({ refund: ai.tool({ inputSchema, execute: fail, needsApproval: true }) });
    const first = await generate(r, [calls("refund")], { tools });
    await generate(r, [done], { tools, prompt: undefined, messages: await answered(first, true) });
  },
  approval_that_nobody_could_route: (r) => generate(r, [calls("refund")], {}, { approval: fail }),
  tool_that_heard_nothing: async (r) => {
    const { abortSignal, ...cut } = abortedBy("deaf");
    // Version 6 goes on reading until the tool has an answer, which it never has.
    void stream(r, [search, calls("deaf")], { abortSignal, ...cut });
    await new Promise((heard) => abortSignal.addEventListener("abort", heard));
  },
  reader_went_away: async (r) => {
    const controller = new AbortController();
    r.streamText({ onError: () => {}, ...call([search, done], { abortSignal: controller.signal }) });
    controller.abort();
  },
  left_open: async (r) => {
    r.streamText(call([search, done]));
  },
  stopped_by_a_transform: (r) => {
    const stopping = ({ stopStream }) =>
      new TransformStream({
        transform: (part, controller) => {
          controller.enqueue(part);
          if (part.type === "tool-result") stopStream();
        },
      });
    return stream(r, [search, done], { experimental_transform: stopping });
  },
  at_the_same_time: async (r) => {
    const { prompt, ...settings } = call([]);
    const both = new r.ToolLoopAgent({ ...settings, model: scripted(mocks, [search]), stopWhen: steps(4) });
    await Promise.all([both.generate({ prompt }), both.generate({ prompt }, { agent: "second" })]);
  },
  prepared_anew: async (r) => {
    const { prompt, ...settings } = call([search]);
    const prepareCall = ({ stopWhen: _, ...rest }) => ({ ...rest, stopWhen: steps(3) });
    await new r.ToolLoopAgent({ ...settings, prepareCall }).generate({ prompt });
  },
  callbacks_of_the_program: async (r) => {
    const told = { steps: 0, tools: 0, ends: 0, chunks: 0, errors: 0 };
    const more = {
      onStepFinish: () => void told.steps++,
      experimental_onToolCallFinish: () => void told.tools++,
      onFinish: () => void told.ends++,
      onChunk: () => void told.chunks++,
      onError: () => void told.errors++,
    };
    await generate(r, [search, done], more);
    await stream(r, [search, throws()], more);
    return { told: { ...told, chunks: told.chunks > 0 } };
  },
  ...(ai.isStepCount && {
    denied_by_a_rule: (r) => generate(r, [calls("refund"), done], { toolApproval: { refund: "denied" } }),
    approved_by_a_rule: (r) => generate(r, [calls("refund"), done], { toolApproval: { refund: "approved" } }),
    tool_timed_out: (r) => generate(r, [calls("slow"), done], { timeout: { toolMs: 60 } }),
  }),
};

/** @returns {[string, (recorder: any) => Promise<any>][]} each script in each way that the SDK can be called */
function everyWay(scripts) {
  return Object.entries(ways).flatMap(([way, run]) =>
    Object.entries(scripts).map(([loop, script]) => [`${loop}-${way}`, (r) => script(run, r)]),
  );
}

const seen = {};

async function record([loop, run]) {
  const problems = [];
  const onProblem = (problem) => problems.push(problem.message);
  const recorder = await attach(ai, { folder: join(folder, loop), workflow: "desk", policyVersion: "p7", onProblem });
  let told = null;
  let thrown = null;
  try {
    told = (await run(recorder))?.told ?? null;
  } catch (error) {
    thrown = error?.message === MARKER ? "its own" : error?.name;
  }
  await recorder.close();
  seen[loop] = { thrown, told, problems };
}

// The timers of a timeout keep no program alive by themselves.
const alive = setInterval(() => {}, 1_000);
for (const each of [...Object.entries(own), ...everyWay(anyWay)]) await record(each);
await Promise.all(everyWay(slowly).map(record));
clearInterval(alive);
console.log(JSON.stringify({ version: (await attach(ai, { folder })).version, seen }));
