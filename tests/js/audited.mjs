/**
 * Two loops of a published workflow, posted: one that finishes by itself, and one that stops for an approval that
 * nobody was asked for: `node audited.mjs PACKAGE MODULE URL WORKFLOW`, the token in BRANCHGATE_TOKEN.
 */

import { pathToFileURL } from "node:url";

import { MARKER, calls, says, scripted } from "./model.mjs";

const [name, module, url, workflow] = process.argv.slice(2);
const ai = await import(name);
const mocks = await import(`${name}/test`);
const { attach } = await import(pathToFileURL(module).href);
const inputSchema = ai.jsonSchema({ type: "object" });
const tools = {
  search: ai.tool({ inputSchema, execute: async () => MARKER }),
  refund: ai.tool({ inputSchema, execute: async () => MARKER, needsApproval: true }),
};
const stopWhen = (ai.isStepCount ?? ai.stepCountIs)(2);
const loop = (...turns) => ({ model: scripted(mocks, turns), tools, prompt: MARKER, stopWhen });

const recorder = await attach(ai, { url, workflow });
await recorder.generateText(loop(calls("search"), says()), { agent: "triage" });
await recorder.generateText(loop(calls("search"), calls("search"), says()), { agent: "triage" });
await recorder.generateText(loop(calls("search"), calls("refund")), { agent: "triage" });
console.log(JSON.stringify(await recorder.flush()));
