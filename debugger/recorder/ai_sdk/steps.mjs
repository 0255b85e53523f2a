/** One step of a loop as evidence: which tools were called and what became of the calls, never with what. */

import { classOf, count, finishWord } from "./words.mjs";

/**
 * @param {any} step the SDK's own result of a step
 * @param {(call: any) => {tool: string, call_ref: string}} which
 * @param {import("./words.mjs").Refs} refs
 * @param {AbortSignal | undefined} signal the loop's
 * @returns {Record<string, unknown>}
 */
export function stepOf(step, which, refs, signal) {
  /** @type {any[]} */
  const parts = step.content;
  const approval = (/** @type {any} */ each) => refs.of("approval", each.approvalId);
  return {
    finish_reason: finishWord(step.finishReason),
    tool_calls: parts.filter(ofType("tool-call")).map((call) => ({
      ...which(call),
      invalid: call.invalid === true,
      error_class: call.error === undefined ? null : classOf(call.error, signal),
    })),
    tool_results: parts.filter(ofType("tool-result")).map((each) => ({
      ...which(each),
      preliminary: each.preliminary === true,
    })),
    tool_errors: parts.filter(ofType("tool-error")).map((each) => ({
      ...which(each),
      error_class: classOf(each.error, signal),
    })),
    approval_requests: parts.filter(ofType("tool-approval-request")).map((each) => ({
      ...which(each.toolCall),
      approval_ref: approval(each),
      automatic: each.isAutomatic === true,
    })),
    approval_responses: parts.filter(ofType("tool-approval-response")).map((each) => ({
      approval_ref: approval(each),
      approved: each.approved === true,
    })),
    usage: {
      input: count(step.usage?.inputTokens),
      output: count(step.usage?.outputTokens),
      total: count(step.usage?.totalTokens),
    },
  };
}

/** @param {any[]} steps as evidence @returns {string[]} the tools whose calls wait for a person */
export function pendingTools(steps) {
  const answered = new Set(steps.flatMap((step) => step.approval_responses).map((each) => each.approval_ref));
  const asked = steps.flatMap((step) => step.approval_requests);
  return asked.filter((each) => !each.automatic && !answered.has(each.approval_ref)).map((each) => each.tool);
}

/** @param {string} type @returns {(part: any) => boolean} */
export function ofType(type) {
  return (part) => part.type === type;
}
