/**
 * What a stop condition is. The SDK's own are functions without a name, so they are told by their source text:
 * one with the text of `hasToolCall` does what `hasToolCall` does, and can be asked without any effect.
 * A condition of the program's own making is never asked here, and is only what `describe` said of it.
 */

/** More steps than this in a limit are not looked for. */
const MOST_STEPS = 10_000;
/** What an agent and a single call stop after where nobody said anything else, in 6 and in 7. */
export const DEFAULT_AGENT_STEPS = 20;
export const DEFAULT_CALL_STEPS = 1;

/** @typedef {{name: string, params: Record<string, unknown> | null}} Described */
/** @type {WeakMap<Function, Described>} */
const said = new WeakMap();

/**
 * A condition that ends the loop once its steps together used so many tokens.
 *
 * @param {number} limit
 */
export function tokenBudget(limit) {
  if (!Number.isSafeInteger(limit) || limit < 0) throw new RangeError("branchgate: tokenBudget: whole number");
  /** @param {{steps: any[]}} loop */
  const condition = ({ steps }) => steps.reduce((sum, { usage }) => sum + tokensOf(usage), 0) >= limit;
  said.set(condition, { name: "tokenBudget", params: { max_total: limit } });
  return condition;
}

/** @param {any} usage @returns {number} */
function tokensOf(usage) {
  return usage?.totalTokens ?? (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
}

/** Reads conditions of one installed SDK. */
export class Conditions {
  /** @param {any} sdk */
  constructor(sdk) {
    this.stepCount = sdk.isStepCount ?? sdk.stepCountIs;
    this.stepCountName = sdk.isStepCount ? "isStepCount" : "stepCountIs";
    /** @type {Map<string, (condition: Function, tools: string[]) => Described | undefined>} */
    this.texts = new Map();
    this.texts.set(String(this.stepCount(1)), (condition) => this.#steps(condition));
    this.texts.set(String(sdk.hasToolCall("a")), toolsOf);
    if (sdk.isLoopFinished) {
      this.texts.set(String(sdk.isLoopFinished()), () => ({ name: "isLoopFinished", params: null }));
    }
  }

  /**
   * @param {Function} condition
   * @param {string[]} tools those that may be asked for
   * @returns {Described} "custom" without parameters where it is not the SDK's
   */
  describe(condition, tools) {
    const known = said.get(condition) ?? this.texts.get(String(condition))?.(condition, tools);
    return known ?? { name: "custom", params: null };
  }

  /** @param {Function} condition @returns {Described | undefined} */
  #steps(condition) {
    for (let n = 1; n <= MOST_STEPS; n += 1) {
      if (condition({ steps: { length: n } })) return { name: this.stepCountName, params: { n } };
    }
    return undefined;
  }
}

/** @param {Function} condition @param {string[]} tools @returns {Described} */
function toolsOf(condition, tools) {
  const found = tools.filter((toolName) => condition({ steps: [{ toolCalls: [{ toolName }] }] }));
  return { name: "hasToolCall", params: { tools: found } };
}
