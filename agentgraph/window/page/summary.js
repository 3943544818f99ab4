// The thread in short: what was asked and said last, why it failed, what it waits for.

import {atNextFrame, el, longText, timeText} from "./elements.js";

/** @import {Bar, Changed, Child, State, Store} from "./page.d.ts" */
/** @import {Thread} from "./shapes.d.ts" */

const MOST_WORDS = 300; // characters of a text that are shown until all is wanted
const MOST_NOTICE = 600;

/**
 * Which bar failed, and when.
 *
 * @typedef {{
 *   threadId: string | null, line: string | null, address: string, turn: number, time: number,
 * }} Failure
 */

/** Make it: {node, update}.
 *
 * @param {Store} store
 */
export function makeSummary(store) {
  const {state} = store;
  const asked = el("div", {class: "summary-asked"});
  const said = el("div", {class: "summary-said"});
  const notices = el("div", {class: "notices"});
  const node = el("section", {class: "summary", "aria-label": "The thread in short", hidden: true});
  node.append(asked, said, notices);
  let shown = "";
  /** @type {Failure | null} */
  let before = null; // which bar of the thread was seen to fail last, and when
  let failedAgain = false; // whether it failed once more since then

  const show = atNextFrame(() => {
    const {thread} = state;
    const texts = thread?.turns?.at(-1)?.texts ?? [];
    const fault = thread?.status === "failed" ? lastFailed(state.bars) : null;
    noteFault(fault);
    const {about, stopping} = state;
    const facts = thread && [
      thread.last, thread.status, thread.changed, thread.pending, thread.queued, about?.is_read_only,
      stopping, failedAgain,
    ];
    const key = JSON.stringify([state.threadId, state.line, texts, fault, facts]);
    if (key === shown) return;
    shown = key;
    node.hidden = !thread;
    if (!thread) return;
    showWords(asked, "asked", texts.join("\n"));
    showWords(said, "last said", thread.last);
    notices.replaceChildren(...[
      failureNotice(thread, fault), stopNotice(thread), questionNotice(thread), changeNotice(thread),
      lineNotice(),
      ...thread.queued.map(queueNotice),
    ].filter((each) => each !== null));
  });

  /** @param {string} name */
  function showTab(name) {
    node.dispatchEvent(new CustomEvent("showtab", {bubbles: true, detail: name}));
  }

  /** Note whether it is the failure of before, or the same that came anew when it was tried again.
   *
   * @param {Bar | null} fault
   */
  function noteFault(fault) {
    const {threadId, line} = state;
    if (before && (before.threadId !== threadId || before.line !== line)) before = null;
    if (!before) failedAgain = false;
    if (!fault) return;
    const {address, turn} = fault;
    const now = {threadId, line, address, turn, time: fault.ended ?? fault.began};
    if (before?.address !== address || before.turn !== turn) failedAgain = false;
    else if (now.time > before.time) failedAgain = true;
    before = now;
  }

  /** @param {string} text */
  function resumeButton(text) {
    const {about, line, threadId} = state;
    if (about?.is_read_only || line || !threadId) return null;
    return noticeButton(text, () => store.want("resume", {thread_id: threadId}));
  }

  /** @param {Thread} thread */
  function stopNotice({status}) {
    if (status !== "stopped") return null;
    const text = "The run was stopped, or its process ended. ";
    return notice("stopped", text, resumeButton("Resume"),
      noticeButton("More in Run", () => showTab("actions")));
  }

  /**
   * @param {Thread} thread
   * @param {Bar | null} fault
   */
  function failureNotice(thread, fault) {
    if (thread.status !== "failed") return null;
    const again = resumeButton("Try again");
    if (!fault) return notice("bad", el("b", {}, "The run failed. "), again);
    const look = () => {
      store.select(fault.id);
      showTab("detail");
    };
    const time = timeText(fault.ended ?? fault.began);
    const how = failedAgain ? ` failed again at ${time}. ` : " failed. ";
    const name = el("b", {}, el("bdi", {}, fault.agent_name), how);
    return notice("bad", name, words(fault.text), noticeButton("Look at it", look), again);
  }

  /** @param {Thread} thread */
  function questionNotice({pending}) {
    if (!pending.length) return null;
    const one = "1 question waits for an answer. ";
    const text = pending.length === 1 ? one : `${pending.length} questions wait for answers. `;
    return notice("ask", text, noticeButton("Answer", () => showTab("questions")));
  }

  /** @param {Thread} thread */
  function changeNotice({changed}) {
    return changed ? notice("", words(changed)) : null;
  }

  function lineNotice() {
    if (!state.line) return null;
    const back = noticeButton("Back to the present", () => store.open(state.threadId));
    return notice("", "This is an older line of the thread. ", back);
  }

  return {
    node,
    /**
     * @param {State} _
     * @param {Changed} changed
     */
    update(_, changed) {
      if (["thread", "bars", "threadId", "line", "about"].some((key) => changed.has(key))) show();
    },
  };
}

/**
 * @param {HTMLElement} place
 * @param {string} name
 * @param {string} text
 */
function showWords(place, name, text) {
  place.hidden = !text;
  const label = el("span", {class: "summary-word quiet"}, name);
  place.replaceChildren(label, longText(text, {most: MOST_WORDS}));
}

/** Return the bar that failed last: the innermost, for it began last.
 *
 * @param {State["bars"]} bars
 */
function lastFailed(bars) {
  /** @type {Bar | null} */
  let found = null;
  for (const bar of bars.values()) {
    if (bar.state === "failed" && (!found || bar.began >= found.began)) found = bar;
  }
  return found;
}

/**
 * @param {string} kind
 * @param {Child[]} children
 */
function notice(kind, ...children) {
  const role = kind === "bad" ? "alert" : undefined;
  return el("div", {class: `notice ${kind}`.trim(), role}, ...children);
}

/**
 * @param {string} text
 * @param {() => unknown} onclick
 */
function noticeButton(text, onclick) {
  return el("button", {type: "button", onclick}, text);
}

/** @param {string} text */
function queueNotice(text) {
  return notice("", "waits to be read: ", words(text));
}

/** @param {string} text */
function words(text) {
  return longText(text, {most: MOST_NOTICE, tag: "span"});
}
