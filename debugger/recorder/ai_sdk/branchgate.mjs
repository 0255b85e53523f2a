/**
 * Records why loops of the Vercel AI SDK stopped (`ai` 6 and 7), without any of their content.
 *
 *     import * as ai from "ai";
 *     import { attach } from "branchgate-ai-sdk";
 *
 *     const recorder = await attach(ai, { url: "https://branchgate.example" });
 *     const { generateText, streamText, ToolLoopAgent } = recorder;
 *
 * These three are the SDK's own, with one more argument for what the SDK does not know: the agent's name, the done
 * tool, who decides an approval. They return and throw what the SDK's do. A loop that ends, however it ends, leaves
 * evidence: steps and tool names, conditions and which of them fired, the cause at the boundary. Never a prompt, an
 * argument, an answer or the words of an error.
 */

import { Conditions, tokenBudget } from "./conditions.mjs";
import { Loop } from "./loop.mjs";
import { Outbox, Problem } from "./outbox.mjs";
import { selfTest, versionOf } from "./selftest.mjs";
import { Refs, isName, tokenDigest } from "./words.mjs";

export { Problem, tokenBudget };

/** @typedef {import("./loop.mjs").About} About */
/** @typedef {import("./loop.mjs").Route} Route */
/** @typedef {import("./outbox.mjs").Taken} Taken */
/**
 * @typedef {object} Options
 * @property {string} [url] the server that evidence is posted to
 * @property {string} [tokenEnv] the environment variable that holds the token, BRANCHGATE_TOKEN by default
 * @property {string} [folder] where each loop's evidence is written, one file each, for `manage.py import ai_sdk`
 * @property {string} [workflow] the published workflow whose runs the loops are
 * @property {string} [policyVersion] the version of the stop policy that the program runs under
 * @property {(problem: Problem) => void} [onProblem] told of what could not be sent; by default a warning is printed
 */
/**
 * @typedef {object} Shared what all loops of a recorder have in common
 * @property {string} version
 * @property {number} major
 * @property {string | null} workflow
 * @property {string | null} policyVersion
 * @property {Conditions} conditions
 * @property {Refs} refs
 */

const VERSION = /^[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}$/;

/**
 * Test the installed SDK, and return a recorder for it. Throws a Problem for a version that is not known.
 *
 * @template {Record<string, any>} SDK
 * @param {SDK} sdk the module itself: `import * as ai from "ai"`
 * @param {Options} options
 * @returns {Promise<Recorder<SDK>>}
 */
export async function attach(sdk, options) {
  const outbox = new Outbox(where(options));
  const workflow = options.workflow ?? null;
  if (workflow !== null && !isName(workflow)) throw new Problem("name", { field: "workflow" });
  const policyVersion = options.policyVersion ?? null;
  if (policyVersion !== null && !VERSION.test(policyVersion)) throw new Problem("version", { field: "policyVersion" });
  const { version, major } = await versionOf(sdk);
  const shared = { version, major, workflow, policyVersion, conditions: new Conditions(sdk), refs: new Refs() };
  await selfTest(shared, sdk);
  return new Recorder(sdk, shared, outbox);
}

/** @param {Options} options */
function where({ url, tokenEnv = "BRANCHGATE_TOKEN", folder, onProblem = warn }) {
  if (url === undefined && folder === undefined) throw new Problem("required", { field: "url or folder" });
  if (url !== undefined && !/^https?:\/\//.test(url)) throw new Problem("address", { field: "url" });
  const token = url === undefined ? undefined : process.env[tokenEnv];
  if (url !== undefined && !token) throw new Problem(`no token in the environment as ${tokenEnv}`, { field: "tokenEnv" });
  return { url, token, folder, onProblem };
}

/** @param {Problem} problem */
function warn(problem) {
  console.warn(problem.message);
}

/** @template {Record<string, any>} SDK */
export class Recorder {
  /** @type {Set<Loop>} */ #open = new Set();
  /** @type {Outbox} */ #outbox;
  /** @type {Shared} */ #shared;
  /** @type {SDK} */ #sdk;

  /** @param {SDK} sdk @param {Shared} shared @param {Outbox} outbox */
  constructor(sdk, shared, outbox) {
    this.#sdk = sdk;
    this.#shared = shared;
    this.#outbox = outbox;
    /** The version of the SDK. */
    this.version = shared.version;
    /** @type {(options: Parameters<SDK["generateText"]>[0], about?: About) => ReturnType<SDK["generateText"]>} */
    this.generateText = /** @type {any} */ (this.#generateText.bind(this));
    /** @type {(options: Parameters<SDK["streamText"]>[0], about?: About) => ReturnType<SDK["streamText"]>} */
    this.streamText = this.#streamText.bind(this);
    /** @type {SDK["ToolLoopAgent"]} */
    this.ToolLoopAgent = this.#agentClass();
  }

  /**
   * Send what is left, and return what the server took since the last time: its run, and how its stop is judged.
   *
   * @returns {Promise<Taken[]>}
   */
  flush() {
    return this.#outbox.flush();
  }

  /**
   * End the recording: a loop that is still open is recorded as one whose end nobody saw.
   *
   * @returns {Promise<Taken[]>}
   */
  close() {
    for (const loop of [...this.#open]) loop.leave();
    return this.flush();
  }

  /** @param {string} entry @param {About} about @returns {Loop} */
  #begin(entry, about) {
    const loop = new Loop(this.#shared, entry, checked(about), (ended) => {
      this.#open.delete(ended);
      this.#outbox.add(async () => ended.evidence(await this.#route(ended)));
    });
    this.#open.add(loop);
    return loop;
  }

  /** @param {any} options @param {About} [about] */
  async #generateText(options, about = {}) {
    const loop = this.#begin("generateText", about);
    return await watched(loop, () => this.#sdk.generateText(loop.ofCall(options)));
  }

  /** @param {any} options @param {About} [about] */
  #streamText(options, about = {}) {
    const loop = this.#begin("streamText", about);
    return started(loop, () => this.#sdk.streamText(withStream(loop, loop.ofCall(options))));
  }

  /** @returns {any} the SDK's class; every call is a loop of its own */
  #agentClass() {
    const { ToolLoopAgent } = this.#sdk;
    const begin = (/** @type {string} */ entry, /** @type {any} */ settings, /** @type {About} */ about) =>
      this.#begin(`ToolLoopAgent.${entry}`, { agent: settings.id, ...about });
    return class extends ToolLoopAgent {
      #given;

      /** @param {any} settings @param {About} [about] */
      constructor(settings, about = {}) {
        super(settings);
        this.#given = { settings, about };
      }

      /** @param {any} options @param {About} [about] */
      async generate(options, about) {
        const { settings, about: always } = this.#given;
        const loop = begin("generate", settings, { ...always, ...about });
        const agent = new ToolLoopAgent(forLoop(loop, settings));
        return await watched(loop, () => agent.generate(loop.ofAgentCall(options, settings)));
      }

      /** @param {any} options @param {About} [about] */
      async stream(options, about) {
        const { settings, about: always } = this.#given;
        const loop = begin("stream", settings, { ...always, ...about });
        const agent = new ToolLoopAgent(forLoop(loop, settings));
        return await started(loop, () => agent.stream(withStream(loop, loop.ofAgentCall(options, settings))));
      }
    };
  }

  /** @param {Loop} loop @returns {Promise<Record<string, string | null> | null>} who decides what waits */
  async #route(loop) {
    const pending = loop.pending();
    const { approval } = loop.about;
    if (pending.length === 0 || approval === undefined) return null;
    try {
      const route = typeof approval === "function" ? await approval(pending) : approval;
      return route ? written(route) : null;
    } catch {
      // Nobody is known to decide, and that is what the evidence says.
      return null;
    }
  }
}

/** @param {Loop} loop @param {any} settings @returns {any} an agent's settings, watched for one call */
function forLoop(loop, settings) {
  return {
    ...settings,
    prepareCall: async (/** @type {any} */ args) => {
      const prepared = (await settings.prepareCall?.(args)) ?? args;
      const isDefault = (settings.stopWhen ?? undefined) === undefined && prepared.stopWhen === args.stopWhen;
      return { ...prepared, ...loop.prepared(prepared, isDefault) };
    },
  };
}

/** @param {Loop} loop @param {any} options @returns {any} the same, with the stream seen before anybody changes it */
function withStream(loop, options) {
  const theirs = [options.experimental_transform ?? []].flat();
  return { ...options, experimental_transform: [loop.watchStream(), ...theirs] };
}

/** @param {Loop} loop @param {() => Promise<any>} run @returns {Promise<any>} */
async function watched(loop, run) {
  try {
    const result = await run();
    loop.returned(result);
    return result;
  } catch (error) {
    loop.threw(error);
    throw error;
  }
}

/** @param {Loop} loop @param {() => any} run @returns {any} what streams; only that it could not start is an end */
function started(loop, run) {
  try {
    const result = run();
    if (typeof result?.then !== "function") return result;
    return result.catch((/** @type {unknown} */ error) => {
      loop.threw(error);
      throw error;
    });
  } catch (error) {
    loop.threw(error);
    throw error;
  }
}

/** @param {About} about @returns {About} Throws a Problem that names the field. */
function checked(about) {
  for (const field of /** @type {const} */ (["agent", "doneTool"])) {
    if (about[field] !== undefined && !isName(about[field])) throw new Problem("name", { field });
  }
  return about;
}

/** @param {Route} route @returns {Record<string, string | null>} */
function written({ owner, deadline, resumeToken }) {
  const moment = deadline === undefined || deadline === null ? null : new Date(deadline);
  return {
    owner: isName(owner) ? owner : null,
    deadline: moment === null || Number.isNaN(moment.getTime()) ? null : moment.toISOString(),
    resume_token: resumeToken ? tokenDigest(resumeToken) : null,
  };
}
