/**
 * What may leave of a loop: closed words, counts, names that the program itself gave, and keyed digests.
 *
 * Nothing a model, a tool or a person wrote is among them. A tool's name is sent only where the program listed
 * the tool: a name that a model made up is content, and leaves as a digest.
 */

import { createHash, createHmac, randomBytes } from "node:crypto";

const NAME = /^[A-Za-z0-9][A-Za-z0-9_./:@-]{0,95}$/;
const FINISHES = new Set(["stop", "length", "content-filter", "tool-calls", "error", "other", "unknown", "interrupted"]);
/** An error of the SDK carries this mark; its own class only a name, and a name can be anything. */
const OF_SDK = Symbol.for("vercel.ai.error");
const CLASSES = new Set(
  `Error TypeError RangeError SyntaxError ReferenceError EvalError URIError AggregateError
   AbortError TimeoutError ResponseAborted
   AI_APICallError AI_DownloadError AI_EmptyResponseBodyError AI_InvalidArgumentError AI_InvalidDataContentError
   AI_InvalidMessageRoleError AI_InvalidPromptError AI_InvalidResponseDataError AI_InvalidStreamPartError
   AI_InvalidToolApprovalError AI_InvalidToolApprovalSignatureError AI_InvalidToolInputError AI_JSONParseError
   AI_LoadAPIKeyError AI_LoadSettingError AI_MessageConversionError AI_MissingToolResultsError
   AI_NoContentGeneratedError AI_NoObjectGeneratedError AI_NoOutputGeneratedError AI_NoSuchModelError
   AI_NoSuchProviderError AI_NoSuchToolError AI_RetryError AI_StreamProviderError
   AI_ToolCallNotFoundForApprovalError AI_ToolCallRepairError AI_ToolChoiceViolationError AI_TypeValidationError
   AI_UnsupportedFunctionalityError AI_UnsupportedModelVersionError`.split(/\s+/),
);
const CUT_SHORT = new Set(["AbortError", "TimeoutError", "ResponseAborted"]);
/** Errors wrap each other; one that is deeper than this is not looked for. */
const DEEPEST_CAUSE = 5;

/** Makes digests under a key that never leaves this process: they tell calls apart, and nothing else. */
export class Refs {
  #key = randomBytes(32);

  /** @param {string} kind @param {unknown} text @returns {string} */
  of(kind, text) {
    const digest = createHmac("sha256", this.#key).update(`${kind}\0${String(text)}`).digest("hex");
    return `hmac-sha256:local:${digest}`;
  }
}

/** @param {string} token @returns {string} its digest: whoever holds the token can show that it is this one */
export function tokenDigest(token) {
  return `sha256:${createHash("sha256").update(token).digest("hex")}`;
}

/** @param {unknown} text @returns {text is string} whether it may stand in evidence as a name */
export function isName(text) {
  return typeof text === "string" && NAME.test(text);
}

/** @param {unknown} reason @returns {string} the finish reason as the SDK unified it */
export function finishWord(reason) {
  return typeof reason === "string" && FINISHES.has(reason) ? reason : "other";
}

/** @param {unknown} error @returns {boolean} */
export function isOfSdk(error) {
  return typeof error === "object" && error !== null && /** @type {any} */ (error)[OF_SDK] === true;
}

/**
 * @param {unknown} error
 * @param {AbortSignal} [signal] the loop's own; what it cut short is named for why, whatever was thrown
 * @returns {string} the class of what was thrown, "other" for one that is not known here
 */
export function classOf(error, signal) {
  if (signal?.aborted && isCutShort(error, signal)) return cutOf(signal);
  const name = typeof error === "object" && error !== null ? /** @type {any} */ (error).name : undefined;
  return typeof name === "string" && CLASSES.has(name) ? name : "other";
}

/** @param {AbortSignal} signal an aborted one @returns {"TimeoutError" | "AbortError"} */
export function cutOf(signal) {
  return /** @type {any} */ (signal.reason)?.name === "TimeoutError" ? "TimeoutError" : "AbortError";
}

/** @param {unknown} error @param {AbortSignal} signal @returns {boolean} whether it is there because of the signal */
export function isCutShort(error, signal) {
  return causes(error).some((each) => each === signal.reason || CUT_SHORT.has(/** @type {any} */ (each)?.name));
}

/** @param {unknown} error @returns {unknown[]} the error and what it was caused by */
export function causes(error) {
  const found = [error];
  while (found.length < DEEPEST_CAUSE && found[found.length - 1] instanceof Object) {
    const next = /** @type {any} */ (found[found.length - 1]).cause;
    if (next === undefined || next === null) break;
    found.push(next);
  }
  return found;
}

/** @param {unknown} value @returns {number | null} a count of tokens, null where the provider gave none */
export function count(value) {
  return Number.isSafeInteger(value) && /** @type {number} */ (value) >= 0 ? /** @type {number} */ (value) : null;
}
