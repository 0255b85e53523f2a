/** A model that says what it is told to, turn by turn, with content in every place that can hold some. */

export const MARKER = "CONTENT-MARKER-7f3a";

const USAGE = { inputTokens: { total: 10 }, outputTokens: { total: 5 } };

/** A turn that calls tools; `usage` may say more tokens. */
export function calls(...tools) {
  return { tools, reason: "tool-calls" };
}

/** A turn that only speaks, and how the provider says that it ended. */
export function says(reason = "stop") {
  return { tools: [], reason };
}

/** A turn in which the provider throws, or sends the error in its stream where it has begun already. */
export function throws(error = new Error(MARKER)) {
  return { error };
}

/** What breaks off in the middle of a stream. */
export function breaks() {
  return { error: new Error(MARKER), begun: true };
}

/** @param {any} mocks the SDK's own `ai/test` @param {any[]} turns the last one is said again and again */
export function scripted(mocks, turns, { tokens = 15 } = {}) {
  const Model = mocks.MockLanguageModelV4 ?? mocks.MockLanguageModelV3;
  let said = 0;
  const next = (signal) => {
    signal?.throwIfAborted();
    const turn = turns[Math.min(said, turns.length - 1)];
    said += 1;
    return turn;
  };
  const usage = { ...USAGE, inputTokens: { total: tokens - 5 } };
  return new Model({
    provider: "scripted",
    modelId: "scripted-1",
    doGenerate: async ({ abortSignal }) => {
      const turn = next(abortSignal);
      if (turn.error) throw turn.error;
      return { content: content(turn, said), finishReason: finish(turn), usage, warnings: [] };
    },
    doStream: async ({ abortSignal }) => {
      const turn = next(abortSignal);
      if (turn.error && !turn.begun) throw turn.error;
      return { stream: ReadableStream.from(parts(turn, said, usage)) };
    },
  });
}

function content({ tools }, turn) {
  const made = tools.map((toolName, index) => ({
    type: "tool-call",
    toolCallId: `${MARKER}-${turn}-${index}`,
    toolName,
    input: JSON.stringify({ text: MARKER }),
  }));
  return [{ type: "text", text: MARKER }, ...made];
}

function finish({ reason }) {
  return { unified: reason, raw: MARKER };
}

function* parts(turn, said, usage) {
  yield { type: "stream-start", warnings: [] };
  yield { type: "text-start", id: "t" };
  yield { type: "text-delta", id: "t", delta: MARKER };
  if (turn.begun) {
    yield { type: "error", error: turn.error };
    return;
  }
  yield { type: "text-end", id: "t" };
  yield* content(turn, said).slice(1);
  yield { type: "finish", finishReason: finish(turn), usage };
}
