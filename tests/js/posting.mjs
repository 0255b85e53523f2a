/**
 * Records loops and posts them: `node posting.mjs PACKAGE MODULE URL FOLDER`, the token in BRANCHGATE_TOKEN.
 * Prints what the server took, and what the recorder does while a server is away.
 */

import { readFile, readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { MARKER, calls, says, scripted } from "./model.mjs";

const [name, module, url, folder] = process.argv.slice(2);
const ai = await import(name);
const mocks = await import(`${name}/test`);
const { attach } = await import(pathToFileURL(module).href);
const inputSchema = ai.jsonSchema({ type: "object" });
const tools = {
  search: ai.tool({ inputSchema, execute: async () => MARKER }),
  refund: ai.tool({ inputSchema, execute: async () => MARKER, needsApproval: true }),
};
const stopWhen = (ai.isStepCount ?? ai.stepCountIs)(5);
const loop = (...turns) => ({ model: scripted(mocks, turns), tools, prompt: MARKER, stopWhen });
const route = { owner: "approver-1", deadline: new Date("2026-12-01T09:00:00Z"), resumeToken: MARKER };

/** A server that is away for a while, or refuses; it keeps what it is sent. */
async function away(statuses) {
  const got = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (piece) => (body += piece));
    request.on("end", () => {
      got.push({ body, authorization: request.headers.authorization });
      response.statusCode = statuses.length > 1 ? statuses.shift() : statuses[0];
      response.end(JSON.stringify({ run: "run_x", error: { field: "steps", rule: "list" } }));
    });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { got, server, address: `http://127.0.0.1:${server.address().port}` };
}

async function against(statuses, flushes) {
  const { got, server, address } = await away(statuses);
  const problems = [];
  const onProblem = (problem) => problems.push([problem.rule, problem.field, problem.status]);
  const recorder = await attach(ai, { url: `${address}/`, onProblem });
  await recorder.generateText(loop(says()));
  const taken = [];
  for (let each = 0; each < flushes; each += 1) taken.push((await recorder.flush()).length);
  server.close();
  return { taken, problems, requests: got.length, alike: new Set(got.map(({ body }) => body)).size };
}

const recorder = await attach(ai, { url, folder, policyVersion: "p7" });
await recorder.generateText(loop(calls("search"), says()), { agent: "clerk" });
await recorder.generateText(loop(calls("search"), calls("refund")), { approval: route });
const taken = await recorder.flush();

const again = [];
for (const file of (await readdir(folder)).sort()) {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${process.env.BRANCHGATE_TOKEN}` };
  const body = await readFile(join(folder, file), "utf8");
  again.push(await (await fetch(`${url}/api/v1/sources/ai_sdk`, { method: "POST", headers, body })).json());
}

const [comesBack, staysAway, refuses] = await Promise.all([
  against([503, 503, 200], 1),
  against([503, 503, 503, 503, 503, 503, 200], 2),
  against([422], 1),
]);
console.log(JSON.stringify({ taken, again, comesBack, staysAway, refuses }));
