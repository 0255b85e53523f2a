/** What the recorder says of an SDK and of options that it cannot work with: `node attaching.mjs PACKAGE MODULE`. */

import { pathToFileURL } from "node:url";

import { MARKER, says, scripted } from "./model.mjs";

const [name, module] = process.argv.slice(2);
const ai = { ...(await import(name)) };
const mocks = await import(`${name}/test`);
const { attach, tokenBudget } = await import(pathToFileURL(module).href);
const folder = "unused";

/** The installed SDK, as one that says another version of itself. */
function ofVersion(version) {
  const generateText = async ({ model }) => await model.doGenerate({ headers: { "user-agent": `x ai/${version}` } });
  return { ...ai, generateText };
}

const tries = {
  another_major: () => attach(ofVersion("8.0.0"), { folder }),
  an_older_major: () => attach(ofVersion("5.0.99"), { folder }),
  no_version: () => attach({ ...ai, generateText: async () => ({}) }, { folder }),
  no_agent: () => attach({ ...ai, ToolLoopAgent: undefined }, { folder }),
  nothing: () => attach(undefined, { folder }),
  conditions_not_asked: () => {
    const generateText = (options) => ai.generateText({ ...options, stopWhen: [() => true] });
    return attach({ ...ai, generateText }, { folder });
  },
  steps_not_told: () => {
    const generateText = (options) => ai.generateText({ ...options, onStepEnd: undefined, onStepFinish: undefined });
    return attach({ ...ai, generateText }, { folder });
  },
  nowhere: () => attach(ai, {}),
  no_address: () => attach(ai, { url: `ftp://${MARKER}` }),
  no_token: () => attach(ai, { url: "http://127.0.0.1:9", tokenEnv: "BRANCHGATE_NO_SUCH" }),
  workflow: () => attach(ai, { folder, workflow: `w ${MARKER}` }),
  policy: () => attach(ai, { folder, policyVersion: `p ${MARKER}` }),
  budget: async () => tokenBudget(0.5),
  agent_name: async () => {
    const { generateText } = await attach(ai, { folder });
    await generateText({ model: scripted(mocks, [says()]), prompt: MARKER }, { agent: `a ${MARKER}` });
  },
};

const said = {};
for (const [what, attempt] of Object.entries(tries)) {
  said[what] = await attempt().then(
    () => null,
    (error) => error.message,
  );
}
console.log(JSON.stringify(said));
