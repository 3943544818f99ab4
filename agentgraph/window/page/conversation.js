// The thread as a chat: turns, messages by speaker, folded tool calls, questions in place.

import {makeActions} from "./actions.js";
import {el, paced, setText} from "./elements.js";
import {actionButton, putEntries, refusal} from "./entries.js";
import {makeQuestions} from "./questions.js";
import {makeTalkItems} from "./talk_items.js";
import {talkItems} from "./turns.js";

/** @import {Backend, Changed, State, Store} from "./page.d.ts" */

const ITEMS = 60; // items that are shown at first, the last ones
const ITEMS_MORE = 200;
const NEAR_END = 60; // pixels from the end at which new items are followed
const EMPTY = "Send a message to start.";
const SHOWN_ON = ["talk", "thread", "threadId", "line", "view", "about", "started"];

/** Make the view of the conversation: {node, update, focus}.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {{earlier(): Promise<unknown>}} reader
 */
export function makeConversation(store, backend, reader) {
  const {state} = store;
  const more = actionButton("Show earlier messages", showEarlier, {class: "show-all", hidden: true});
  const flow = el("div", {class: "talk-flow", role: "log", "aria-label": "Messages"});
  const typing = el("div", {class: "talk-typing"});
  const note = el("p", {class: "quiet empty", role: "status"});
  const fault = refusal();
  const scroller = el("div", {class: "talk-scroller", tabindex: 0, role: "group", "aria-label": "Turns"});
  const slotOf = (/** @type {string} */ id) => (
    /** @type {HTMLElement | null} */ (flow.querySelector(`[data-question="${CSS.escape(id)}"]`))
  );
  const questions = makeQuestions(store, backend, {scope: scroller, slotOf});
  const actions = makeActions(store, backend, {watches: false});
  const items = makeTalkItems(store, backend, fault.say);
  scroller.append(more, note, flow, typing, questions.node, fault.node);
  const composer = el("div", {class: "composer"}, actions.node);
  const node = el("section", {class: "talk", "aria-label": "Conversation"}, scroller, composer);
  let most = ITEMS;
  let shownOf = ""; // the thread and line whose items are shown
  /** @type {Map<string, HTMLElement>} */
  const live = new Map(); // the texts that are streamed, by address

  let isFollowing = true; // whether new items are scrolled into view; false once a person scrolls up
  const isAtEnd = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_END;
  const showSoon = paced(show);
  const notice = () => {
    isFollowing = isAtEnd();
  };
  scroller.addEventListener("scroll", notice);
  scroller.addEventListener("toggle", notice, {capture: true}); // an opened part stays in view
  new ResizeObserver(follow).observe(scroller);

  function follow() {
    if (isFollowing) scroller.scrollTop = scroller.scrollHeight;
  }

  async function showEarlier() {
    if (state.talk && talkItems(state.talk).length <= most) await reader.earlier();
    most += ITEMS_MORE;
    show();
  }

  function show() {
    if (state.view !== "talk") return;
    const key = JSON.stringify([state.threadId, state.line]);
    const isOther = key !== shownOf;
    if (isOther) [most, isFollowing] = [ITEMS, true];
    shownOf = state.talk ? key : ""; // the first items may be still to come
    const every = state.talk ? talkItems(state.talk) : [];
    const shown = every.slice(-most);
    putEntries(flow, shown.map(items.entryOf));
    more.hidden = !state.talk || (shown.length === every.length && state.talk.isWhole);
    setText(note, noteText());
    note.hidden = !note.textContent;
    questions.update(state, new Set(["thread"]));
    showTexts();
    follow();
  }

  function noteText() {
    const {threadId, thread, talk} = state;
    if (!threadId || thread?.status === "new") return EMPTY;
    if (thread?.changed) return String(thread.changed).split("\n")[0];
    return talk ? "" : "Loading …";
  }

  /** Show the messages that are streamed, below those that are complete. */
  function showTexts() {
    const complete = new Set(state.talk?.events.slice(-ITEMS).map((each) => each.id));
    const texts = [...state.texts].filter(([address]) => (
      state.line === null && !complete.has(state.streamed.get(address) ?? "")
    ));
    const addresses = new Set(texts.map(([address]) => address));
    for (const [address, each] of live) {
      if (addresses.has(address)) continue;
      each.remove();
      live.delete(address);
    }
    for (const [address, text] of texts) {
      const known = live.get(address) ?? items.speech(address);
      live.set(address, known);
      setText(/** @type {HTMLElement} */ (known.lastElementChild), text);
      if (!known.isConnected) typing.append(known);
    }
  }

  return {
    node,
    focus: () => /** @type {HTMLElement | null} */ (composer.querySelector(".message"))?.focus(),
    /**
     * @param {State} _
     * @param {Changed} changed
     */
    update(_, changed) {
      items.update(state, changed);
      actions.update(state, changed);
      if (changed.has("threadId")) fault.say("");
      if (changed.has("started")) isFollowing = true;
      if (SHOWN_ON.some((key) => changed.has(key))) showSoon();
      else if (changed.has("texts") && state.view === "talk") {
        showTexts();
        follow();
      }
    },
  };
}
