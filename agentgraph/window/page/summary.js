// The thread in short: what was asked and said last, why it failed, what it waits for.

import {atNextFrame, el, longText} from "./elements.js";

const MOST_WORDS = 300; // characters of a text that are shown until all is wanted
const MOST_NOTICE = 600;

/** Make it: {node, update}. */
export function makeSummary(store) {
  const {state} = store;
  const asked = el("div", {class: "summary-asked"});
  const said = el("div", {class: "summary-said"});
  const notices = el("div", {class: "notices"});
  const node = el("section", {class: "summary", "aria-label": "The thread in short", hidden: true});
  node.append(asked, said, notices);
  let shown = "";

  const show = atNextFrame(() => {
    const {thread} = state;
    const texts = thread?.turns?.at(-1)?.texts ?? [];
    const fault = thread?.status === "failed" ? lastFailed(state.bars) : null;
    const facts = thread && [thread.last, thread.status, thread.changed, thread.pending, thread.queued];
    const key = JSON.stringify([state.threadId, state.line, texts, fault, facts]);
    if (key === shown) return;
    shown = key;
    node.hidden = !thread;
    if (!thread) return;
    showWords(asked, "asked", texts.join("\n"));
    showWords(said, "last said", thread.last ?? "");
    notices.replaceChildren(...[
      failureNotice(thread, fault), questionNotice(thread), changeNotice(thread), lineNotice(),
      ...(thread.queued ?? []).map(queueNotice),
    ].filter(Boolean));
  });

  function showTab(name) {
    node.dispatchEvent(new CustomEvent("showtab", {bubbles: true, detail: name}));
  }

  function failureNotice(thread, fault) {
    if (thread.status !== "failed") return null;
    if (!fault) return notice("bad", el("b", {}, "The run failed."));
    const look = () => {
      store.select(fault.id);
      showTab("detail");
    };
    const name = el("b", {}, el("bdi", {}, fault.agent_name), " failed. ");
    return notice("bad", name, words(fault.text), noticeButton("Look at it", look));
  }

  function questionNotice({pending = []}) {
    if (!pending.length) return null;
    const one = "1 question waits for an answer. ";
    const text = pending.length === 1 ? one : `${pending.length} questions wait for answers. `;
    return notice("ask", text, noticeButton("Answer", () => showTab("questions")));
  }

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
    update(_, changed) {
      if (["thread", "bars", "threadId", "line"].some((key) => changed.has(key))) show();
    },
  };
}

function showWords(place, name, text) {
  place.hidden = !text;
  const label = el("span", {class: "summary-word quiet"}, name);
  place.replaceChildren(label, longText(text, {most: MOST_WORDS}));
}

/** Return the bar that failed last: the innermost, for it began last. */
function lastFailed(bars) {
  let found = null;
  for (const bar of bars.values()) {
    if (bar.state === "failed" && (!found || bar.began >= found.began)) found = bar;
  }
  return found;
}

function notice(kind, ...children) {
  const role = kind === "bad" ? "alert" : undefined;
  return el("div", {class: `notice ${kind}`.trim(), role}, ...children);
}

function noticeButton(text, onclick) {
  return el("button", {type: "button", onclick}, text);
}

function queueNotice(text) {
  return notice("", "waits to be read: ", words(text));
}

function words(text) {
  return longText(text, {most: MOST_NOTICE, tag: "span"});
}
