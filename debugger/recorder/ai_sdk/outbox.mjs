/** Evidence on its way: written into a folder first, where there is one, then posted until it was taken. */

import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

const WAITS_MS = [200, 1_000];
const ANSWER_MS = 10_000;
/** What the server says of the evidence itself: sending it again changes nothing. */
const NEVER_TAKEN = new Set([400, 413, 415, 422]);
/** More than this is not kept while the server is away; with a folder it lies there all the same. */
const MOST_UNSENT = 1_000;

/** What the recorder could not do; it never holds what was recorded. */
export class Problem extends Error {
  /** @param {string} rule @param {{field?: string, status?: number, loop?: string}} [more] */
  constructor(rule, more = {}) {
    super(`branchgate: ${more.field ? `${more.field}: ` : ""}${rule}`);
    this.name = "BranchgateProblem";
    this.rule = rule;
    this.field = more.field ?? "";
    this.status = more.status ?? null;
    this.loop = more.loop ?? null;
  }
}

/** @typedef {{loop: string, run: string | null, accepted: number, duplicates: number, refused: object[], stops: object[]}} Taken */

export class Outbox {
  /** @type {Record<string, unknown>[]} */ #unsent = [];
  /** @type {Promise<void>} */ #work = Promise.resolve();
  /** @type {Taken[]} */ #taken = [];

  /**
   * @param {{url?: string, token?: string, folder?: string, onProblem: (problem: Problem) => void}} where
   */
  constructor({ url, token, folder, onProblem }) {
    this.address = url === undefined ? undefined : new URL("api/v1/sources/ai_sdk", `${url.replace(/\/+$/, "")}/`);
    this.token = token;
    this.folder = folder;
    this.onProblem = onProblem;
  }

  /** @param {() => Promise<Record<string, unknown>>} make */
  add(make) {
    this.#work = this.#work.then(() => this.#take(make)).catch(() => this.#say(new Problem("not_recorded")));
  }

  /** @param {() => Promise<Record<string, unknown>>} make */
  async #take(make) {
    const evidence = await make();
    await this.#write(evidence);
    if (this.address === undefined) return;
    this.#unsent.push(evidence);
    if (this.#unsent.length > MOST_UNSENT) this.#say(new Problem("dropped", { loop: idOf(this.#unsent.shift()) }));
    await this.#send();
  }

  /** @returns {Promise<Taken[]>} what was taken since the last time, after everything was tried once more */
  async flush() {
    this.#work = this.#work.then(() => this.#send());
    await this.#work;
    return this.#taken.splice(0);
  }

  /** @param {Record<string, unknown>} evidence */
  async #write(evidence) {
    if (this.folder === undefined) return;
    const path = join(this.folder, `loop-${evidence.loop}.json`);
    try {
      await mkdir(this.folder, { recursive: true, mode: 0o700 });
      await writeFile(`${path}.part`, `${JSON.stringify(evidence, null, 1)}\n`, { mode: 0o600 });
      await rename(`${path}.part`, path);
    } catch {
      this.#say(new Problem("not_writable", { field: "folder", loop: idOf(evidence) }));
    }
  }

  async #send() {
    while (this.#unsent.length > 0) {
      const answer = await this.#post(this.#unsent[0]);
      if (answer === undefined) return;
      this.#unsent.shift();
    }
  }

  /** @param {Record<string, unknown>} evidence @returns {Promise<true | undefined>} whether there is no more to do */
  async #post(evidence) {
    const loop = idOf(evidence);
    for (let tried = 0; ; tried += 1) {
      const { status, body } = await this.#ask(JSON.stringify(evidence));
      if (status !== null && status < 300 && typeof body?.run === "string") {
        this.#taken.push({ loop, ...body });
        return true;
      }
      if (status !== null && NEVER_TAKEN.has(status)) {
        this.#say(new Problem(body?.error?.rule ?? "refused", { field: body?.error?.field, status, loop }));
        return true;
      }
      if (status !== null && status < 500 && status !== 429) {
        // Something stands between us and the server, or the token is not the right one: it may be mended.
        this.#say(new Problem(body?.error?.rule ?? "not_taken", { field: body?.error?.field, status, loop }));
        return undefined;
      }
      if (tried >= WAITS_MS.length) {
        this.#say(new Problem("unreachable", { status: status ?? undefined, loop }));
        return undefined;
      }
      await new Promise((done) => setTimeout(done, WAITS_MS[tried]));
    }
  }

  /** @param {string} body @returns {Promise<{status: number | null, body: any}>} */
  async #ask(body) {
    try {
      const response = await fetch(/** @type {URL} */ (this.address), {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${this.token}` },
        body,
        // The token goes to nobody else.
        redirect: "manual",
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      return { status: response.status, body: await response.json().catch(() => null) };
    } catch {
      return { status: null, body: null };
    }
  }

  /** @param {Problem} problem */
  #say(problem) {
    try {
      this.onProblem(problem);
    } catch {
      // Whoever listens must not stop what is on its way.
    }
  }
}

/** @param {any} evidence @returns {string} */
function idOf(evidence) {
  return evidence.loop;
}
