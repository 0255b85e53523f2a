/** What is seen of one loop while it runs, and the evidence that is made of it when it ends. */

import { randomUUID } from "node:crypto";

import { DEFAULT_AGENT_STEPS, DEFAULT_CALL_STEPS } from "./conditions.mjs";
import { ofType, pendingTools, stepOf } from "./steps.mjs";
import { causes, classOf, cutOf, finishWord, isCutShort, isName, isOfSdk } from "./words.mjs";

/** A stream whose reader went away tells nobody that it was aborted; after this long it has ended. */
const ABORTED_MS = 1_000;

/**
 * The callbacks that are watched, by major version: the SDK's name, and the older one that it still knows.
 * Version 6 merges only `onStepFinish` of an agent with that of a call; the others are set where a call is prepared.
 *
 * @type {Record<number, {sees: "step" | "toolStart" | "toolEnd", name: string, old?: string, merged: boolean}[]>}
 */
const CALLBACKS = {
  6: [
    { sees: "step", name: "onStepFinish", merged: true },
    { sees: "toolStart", name: "experimental_onToolCallStart", merged: false },
    { sees: "toolEnd", name: "experimental_onToolCallFinish", merged: false },
  ],
  7: [
    { sees: "step", name: "onStepEnd", old: "onStepFinish", merged: true },
    { sees: "toolStart", name: "onToolExecutionStart", old: "experimental_onToolCallStart", merged: true },
    { sees: "toolEnd", name: "onToolExecutionEnd", old: "experimental_onToolCallFinish", merged: true },
  ],
};

/** @typedef {{owner?: string, deadline?: Date | string, resumeToken?: string}} Route */
/**
 * @typedef {object} About what the SDK does not know of a loop
 * @property {string} [agent] the agent's name
 * @property {string} [doneTool] the tool by which a model says that it is done, "done" by default
 * @property {Route | ((tools: string[]) => Route | null | undefined | Promise<Route | null | undefined>)} [approval]
 *   who decides, until when, and the token with which the loop goes on
 */

export class Loop {
  id = randomUUID();
  #started = new Date().toISOString();
  /** @type {any[]} */ #steps = [];
  /** @type {any[]} */ #ran = [];
  /** @type {any[]} */ #conditions = [];
  /** @type {any[]} */ #deadlines = [];
  /** @type {Map<string, any>} */ #tools = new Map();
  /** @type {AbortSignal | undefined} */ #signal;
  #hasTimers = false;
  #missed = false;
  /** @type {Record<string, unknown> | undefined} */ #end;
  /** @type {unknown} */ #streamError;
  #isFinished = false;
  #isSettled = false;
  #onAbort = () => {
    setTimeout(() => this.leave(), ABORTED_MS).unref();
  };

  /**
   * @param {import("./branchgate.mjs").Shared} shared
   * @param {string} entry where the SDK was called
   * @param {About} about
   * @param {(loop: Loop) => void} ended called once
   */
  constructor(shared, entry, about, ended) {
    this.shared = shared;
    this.entry = entry;
    this.about = about;
    this.ended = ended;
  }

  /** @param {any} given @returns {any} the options of a single call, with everything watched */
  ofCall(given) {
    const cut = this.#cut(given.abortSignal, given.timeout);
    return { ...given, ...cut, ...this.prepared(given, false), ...this.#callbacks(given, (each) => each.merged) };
  }

  /** @param {any} given @param {any} settings @returns {any} the options of an agent's call */
  ofAgentCall(given, settings) {
    const cut = this.#cut(given.abortSignal, given.timeout ?? settings.timeout);
    return { ...given, ...cut, ...this.#callbacks(given, (each) => each.merged) };
  }

  /** @param {any} prepared @param {boolean} isDefault @returns {any} what is known only once a call is prepared */
  prepared(prepared, isDefault) {
    this.#tools = new Map(Object.entries(prepared.tools ?? {}));
    if (prepared.timeout !== undefined && prepared.timeout !== null) this.#hasTimers = true;
    return {
      stopWhen: this.#watched(prepared.stopWhen, isDefault),
      ...this.#callbacks(prepared, (each) => !each.merged),
    };
  }

  /** @returns {() => TransformStream<any, any>} a transform that changes nothing and sees how a stream ends */
  watchStream() {
    this.#signal?.addEventListener("abort", this.#onAbort, { once: true });
    return () =>
      new TransformStream({
        transform: (part, controller) => {
          this.#see(() => this.#seePart(part));
          controller.enqueue(part);
        },
        flush: () => this.#settle(this.#endOfStream()),
        // @ts-ignore - older than the types know
        cancel: () => this.#settle(this.#signal?.aborted ? this.#endOfStream() : { kind: "cancelled" }),
      });
  }

  /** @param {any} result what `generate` returned */
  returned(result) {
    this.#settle({ kind: "returned", finish_reason: finishWord(result?.finishReason), steps: this.#steps.length });
  }

  /** @param {unknown} error what `generate` threw */
  threw(error) {
    this.#settle({ kind: "threw", error: this.#thrown(error) });
  }

  /** The program ends before the loop did. */
  leave() {
    this.#settle(this.#signal?.aborted ? { kind: "aborted", error: this.#cutError() } : { kind: "left_open" });
  }

  /** @param {any} given @param {(each: {merged: boolean}) => boolean} chosen @returns {Record<string, Function>} */
  #callbacks(given, chosen) {
    const found = CALLBACKS[this.shared.major].filter(chosen).map(({ sees, name, old }) => {
      const theirs = given[name] ?? (old === undefined ? undefined : given[old]);
      const ours = { step: this.#seeStep, toolStart: this.#seeToolStart, toolEnd: this.#seeToolEnd }[sees];
      const both = (/** @type {any} */ event) => {
        this.#see(() => ours.call(this, event));
        return theirs?.(event);
      };
      return [name, both];
    });
    return Object.fromEntries(found);
  }

  /** @param {AbortSignal | undefined} theirs @param {any} timeout @returns {{abortSignal?: AbortSignal}} */
  #cut(theirs, timeout) {
    const ms = typeof timeout === "number" ? timeout : timeout?.totalMs;
    if (timeout !== undefined && timeout !== null) this.#hasTimers = true;
    this.#signal = theirs ?? undefined;
    if (Number.isSafeInteger(ms) && ms >= 0) {
      this.#deadlines.push({ name: "timeout", params: { ms }, evaluations: [] });
      const timer = AbortSignal.timeout(ms);
      this.#signal = theirs ? AbortSignal.any([theirs, timer]) : timer;
    }
    return this.#signal === undefined ? {} : { abortSignal: this.#signal };
  }

  /** @param {any} stopWhen @param {boolean} isDefault @returns {Function[]} */
  #watched(stopWhen, isDefault) {
    const { conditions } = this.shared;
    const list = stopWhen === undefined ? [conditions.stepCount(DEFAULT_CALL_STEPS)] : [stopWhen].flat();
    const names = [...this.#tools.keys()];
    this.#conditions = [];
    return list.map((condition) => {
      const what = isDefault
        ? { name: conditions.stepCountName, params: { n: DEFAULT_AGENT_STEPS } }
        : conditions.describe(condition, names);
      /** @type {any} */
      const seen = { ...what, default: isDefault || stopWhen === undefined, evaluations: [] };
      this.#conditions.push(seen);
      return async (/** @type {any} */ asked) => {
        const result = await condition(asked);
        // Only the last answer can have ended the loop.
        seen.evaluations = [{ at_steps: asked.steps.length, result: Boolean(result) }];
        return result;
      };
    });
  }

  /** @param {() => void} look whatever goes wrong here is ours, and never the program's */
  #see(look) {
    try {
      look();
    } catch {
      this.#missed = true;
    }
  }

  /** @param {any} step */
  #seeStep(step) {
    const seen = stepOf(step, (each) => this.#which(each), this.shared.refs, this.#signal);
    for (const call of step.content.filter(ofType("tool-call"))) {
      const place = this.#ran.findIndex((each) => each.id === call.toolCallId && each.name === call.toolName);
      if (place >= 0) this.#ran.splice(place, 1);
    }
    this.#steps.push({ n: this.#steps.length + 1, at: new Date().toISOString(), ...seen });
  }

  /** @param {any} event */
  #seeToolStart({ toolCall }) {
    const own = { id: toolCall.toolCallId, name: toolCall.toolName };
    this.#ran.push({ ...own, after: this.#steps.length, returned: false, error: null });
  }

  /** @param {any} event */
  #seeToolEnd({ toolCall, toolOutput, success, error }) {
    const own = this.#ran.find((each) => each.id === toolCall.toolCallId && each.name === toolCall.toolName);
    const failed = toolOutput === undefined ? success !== true : toolOutput.type !== "tool-result";
    own.returned = !failed;
    own.error = failed ? classOf(toolOutput === undefined ? error : toolOutput.error, this.#signal) : null;
  }

  /** @param {any} part */
  #seePart(part) {
    if (part?.type === "error") this.#streamError = this.#thrown(part.error);
    if (part?.type === "finish") this.#isFinished = true;
    if (part?.type === "abort") this.#end ??= { kind: "aborted", error: this.#cutError() };
  }

  /** @returns {Record<string, unknown>} */
  #endOfStream() {
    if (this.#end !== undefined) return this.#end;
    if (this.#streamError !== undefined) return { kind: "threw", error: this.#streamError };
    // A transform of the program's own can end a stream in the middle: nothing says why.
    if (!this.#isFinished || this.#steps.length === 0) return { kind: "stream_ended" };
    const last = this.#steps[this.#steps.length - 1];
    return { kind: "returned", finish_reason: last.finish_reason, steps: this.#steps.length };
  }

  /** @returns {Record<string, unknown>} what cut it: our own signal, or else a timer of the SDK for a step */
  #cutError() {
    const name = this.#signal?.aborted ? cutOf(this.#signal) : "TimeoutError";
    return { name, ai_error: false };
  }

  /** @param {unknown} error @returns {Record<string, unknown>} */
  #thrown(error) {
    const isOurs = this.#signal?.aborted === true && isCutShort(error, this.#signal);
    if (isOurs) return this.#cutError();
    const timer = this.#hasTimers && causes(error).some((each) => classOf(each) === "TimeoutError");
    const name = timer ? "TimeoutError" : classOf(error);
    // Nobody of ours aborted it: what a provider gave up by itself is a failure and no abort.
    const isForeign = !timer && ["AbortError", "TimeoutError", "ResponseAborted"].includes(name);
    return { name: isForeign ? "other" : name, ai_error: isOfSdk(error) };
  }

  /** @param {any} each @returns {{tool: string, call_ref: string}} */
  #which(each) {
    return { tool: this.#toolName(each.toolName), call_ref: this.shared.refs.of("call", each.toolCallId) };
  }

  /** @param {string} name @returns {string} */
  #toolName(name) {
    return this.#tools.has(name) && isName(name) ? name : this.shared.refs.of("tool", name);
  }

  /** @param {Record<string, unknown>} end */
  #settle(end) {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#end = this.#missed ? { kind: "not_seen" } : end;
    this.finished = new Date().toISOString();
    this.ended(this);
  }

  /** @returns {string[]} the tools whose calls wait for a person */
  pending() {
    return pendingTools(this.#steps);
  }

  /** @param {Record<string, string | null> | null} route @returns {Record<string, unknown>} */
  evidence(route) {
    return {
      schema: "stop-evidence/1",
      runtime: { name: "vercel-ai-sdk", package: "ai", version: this.shared.version, node: process.version },
      loop: this.id,
      started_at: this.#started,
      ended_at: this.finished,
      entry: this.entry,
      agent: { id: isName(this.about.agent) ? this.about.agent : null, tools: this.#listed() },
      workflow: this.shared.workflow,
      policy_version: this.shared.policyVersion,
      done_tool: this.about.doneTool ?? "done",
      stop_conditions: [...this.#conditions, ...this.#deadlines],
      steps: this.#steps,
      calls_outside_steps: this.#ran.map(({ id, name, after, returned, error }) => ({
        ...this.#which({ toolCallId: id, toolName: name }),
        after_step: after,
        returned,
        error_class: error,
      })),
      approval_route: route,
      end: this.#end,
    };
  }

  /** @returns {Record<string, unknown>[]} */
  #listed() {
    return [...this.#tools].map(([name, tool]) => ({
      name: this.#toolName(name),
      // A provider may run a tool of its own without a function here.
      has_execute: typeof tool?.execute === "function" || String(tool?.type ?? "").startsWith("provider"),
    }));
  }
}
