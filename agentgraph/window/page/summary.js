// The summary of the thread: last input, last output, error, open questions; and which version is open.

import {lastFailed} from "./bars.js";
import {atNextFrame, el, longText, shortText, timeText} from "./elements.js";
import {questionText} from "./forms.js";
import {missingValue} from "./limits.js";

/** @import {Bar, Changed, Child, State, Store} from "./page.d.ts" */
/** @import {Data, Thread} from "./shapes.d.ts" */

const MOST_WORDS = 300; // characters of a text that are shown at first
const MOST_NOTICE = 600;

/**
 * The failed bar, and the time of its failure.
 *
 * @typedef {{
 *   threadId: string | null, line: string | null, address: string, turn: number, time: number,
 * }} Failure
 */

/** Make the summary: {node, version, update}; `version` is shown above each view of an older version.
 *
 * @param {Store} store
 */
export function makeSummary(store) {
  const {state} = store;
  const asked = el("div", {class: "summary-asked"});
  const said = el("div", {class: "summary-said"});
  const notices = el("div", {class: "notices"});
  const node = el("section", {class: "summary", "aria-label": "Thread summary", hidden: true});
  node.append(asked, said, notices);
  const version = notice("version", "This is an older version of the thread. ",
    noticeButton("Open current version", () => store.open(state.threadId)));
  let shown = "";
  /** @type {Failure | null} */
  let before = null; // the last known failure of the thread
  let failedAgain = false; // whether the same bar has failed again since then

  const show = atNextFrame(() => {
    const {thread} = state;
    const {texts, last, name} = wordsOfTurn(state);
    version.hidden = state.line === null;
    const fault = thread?.status === "failed" && state.line === null ? lastFailed(state.bars) : null;
    noteFault(fault);
    const {about, stopping} = state;
    const facts = thread && [
      last, name, thread.status, thread.changed, thread.pending, thread.queued, about?.is_read_only,
      stopping, failedAgain,
    ];
    const key = JSON.stringify([state.threadId, state.line, texts, fault, facts]);
    if (key === shown) return;
    shown = key;
    node.hidden = !thread;
    if (!thread) return;
    showWords(asked, `Input${name}`, texts.join("\n"));
    showWords(said, `Output${name}`, last);
    const found = state.line === null ? [
      failureNotice(thread, fault), stopNotice(thread), questionNotice(thread), changeNotice(thread),
      ...thread.queued.map(queueNotice),
    ] : [];
    notices.replaceChildren(...found.filter((each) => each !== null));
  });

  /** @param {string} name */
  function showTab(name) {
    node.dispatchEvent(new CustomEvent("showtab", {bubbles: true, detail: name}));
  }

  /** Store whether a retry of the failed bar has failed again.
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

  /** @param {string} name */
  function valueButton(name) {
    if (state.about?.is_read_only || state.line) return null;
    const go = () => node.dispatchEvent(new CustomEvent("setvalue", {bubbles: true}));
    return noticeButton(`Set value ${shortText(name, 40)}`, go);
  }

  /** @param {Thread} thread */
  function stopNotice({status}) {
    if (status !== "stopped") return null;
    const text = "The run was stopped, or its process ended. ";
    return notice("stopped", text, resumeButton("Resume run"),
      noticeButton("Show run options", () => showTab("actions")));
  }

  /**
   * @param {Thread} thread
   * @param {Bar | null} fault
   */
  function failureNotice(thread, fault) {
    if (thread.status !== "failed") return null;
    const missing = missingValue(fault?.text ?? "");
    const again = missing ? valueButton(missing) : resumeButton("Retry step");
    if (!fault) return notice("bad", el("b", {}, "The run failed. "), again);
    const look = () => {
      store.select(fault.id);
      showTab("detail");
    };
    const time = timeText(fault.ended ?? fault.began);
    const how = failedAgain ? ` failed again at ${time}. ` : " failed. ";
    const name = el("b", {}, el("bdi", {}, fault.agent_name), how);
    return notice("bad", name, words(fault.text), noticeButton("Open activation", look), again);
  }

  /** @param {Thread} thread */
  function questionNotice({pending}) {
    if (!pending.length) return null;
    const [first] = pending;
    const isOne = pending.length === 1;
    const text = isOne ? [el("b", {}, el("bdi", {}, first.agent_name), " asks: "), questionWords(first.value)]
      : [`${pending.length} open questions`];
    const answer = noticeButton(isOne ? "Answer question" : "Answer questions", () => showTab("questions"));
    return notice("ask", ...text, " ", answer);
  }

  /** @param {Thread} thread */
  function changeNotice({changed}) {
    return changed ? notice("", words(changed)) : null;
  }

  return {
    node,
    version,
    /**
     * @param {State} _
     * @param {Changed} changed
     */
    update(_, changed) {
      if (["thread", "bars", "threadId", "line", "about", "turn"].some((key) => changed.has(key))) show();
    },
  };
}

/** Return the input and the output of the turn that the tree shows: {texts, last, name}.
 *
 * @param {State} state
 */
function wordsOfTurn({thread, turn, bars}) {
  const latest = thread?.turns.at(-1);
  if (turn === null || turn === -1 || !latest || turn >= latest.number) {
    return {texts: latest?.texts ?? [], last: thread?.last ?? "", name: ""};
  }
  const texts = thread?.turns.find((each) => each.number === turn)?.texts ?? [];
  const own = [...bars.values()].filter((bar) => bar.turn === turn && bar.kind === "agent" && !bar.inside);
  const spoke = own.filter((bar) => bar.text && bar.state !== "void").sort((a, b) => a.began - b.began);
  return {texts, last: spoke.at(-1)?.text ?? "", name: `, turn ${turn + 1}`};
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
  return notice("", "Queued: ", words(text));
}

/** @param {string} text */
function words(text) {
  return longText(text, {most: MOST_NOTICE, tag: "span"});
}

/** @param {Data} value */
function questionWords(value) {
  return shortText(questionText(value), MOST_WORDS);
}
