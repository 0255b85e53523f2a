/**
 * Posts a loop to a server that answers as it is told, then to one that takes it: `node outbox.mjs OUTBOX STATUS BODY`.
 * Prints which loops were taken at first and in the end, and the rules of what went wrong.
 */

import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [module, status, body] = process.argv.slice(2);
const { Outbox } = await import(pathToFileURL(module).href);
const answers = { status: Number(status), body };
const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    response.statusCode = answers.status;
    if (answers.status === 302) response.setHeader("Location", "/elsewhere");
    response.end(answers.body);
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const rules = [];
const outbox = new Outbox({
  url: `http://127.0.0.1:${server.address().port}`,
  token: "t",
  onProblem: (problem) => rules.push(problem.rule),
});
outbox.add(async () => ({ loop: "L1" }));
const first = await outbox.flush();
Object.assign(answers, { status: 200, body: JSON.stringify({ run: "run_x" }) });
const then = await outbox.flush();
console.log(JSON.stringify({ first: first.map((each) => each.loop), then: then.map((each) => each.loop), rules }));
server.close();
