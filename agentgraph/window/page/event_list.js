// The events of the thread as they were streamed, with a filter, and a copy as JSON.

import {el, paced, setText, shortText, timeText} from "./elements.js";
import {actionButton, foldable, putEntries} from "./entries.js";
import {dataView} from "./messages.js";
import {filteredEvents, gistOf, plainEvent} from "./turns.js";

/** @import {Attributes, Changed, Entry, State, Store} from "./page.d.ts" */
/** @import {AgentEvent} from "./shapes.d.ts" */

const EVENTS = 100; // events that are shown at first, the last ones
const EVENTS_MORE = 500;
const COPIED_SECONDS = 1.5; // seconds that a button shows whether it has copied

/** Make the list of events: {node, update}.
 *
 * @param {Store} store
 * @param {{earlier(isAll?: boolean): Promise<unknown>}} reader
 */
export function makeEventList(store, reader) {
  const {state} = store;
  const agents = el("select", {"aria-label": "Agent", onchange: filter});
  const kinds = el("select", {"aria-label": "Type", onchange: filter});
  const word = el("input", {
    type: "search", placeholder: "Search events", "aria-label": "Search events", autocomplete: "off",
    spellcheck: "false", oninput: filter,
  });
  const count = el("span", {class: "quiet", role: "status"});
  const copyAll = copyButton("Copy as JSON", () => found().map(plainEvent));
  const readAll = actionButton("Load all events", () => reader.earlier(true), {hidden: true});
  const more = actionButton("Show earlier events", showMore, {class: "show-all", hidden: true});
  const list = el("div", {class: "event-rows", role: "group", "aria-label": "Events"});
  const scroller = el("div", {class: "talk-scroller", tabindex: -1}, more, list);
  const node = el("section", {class: "talk events", "aria-label": "Events"},
    el("div", {class: "event-tools"}, agents, kinds, word, count, readAll, copyAll), scroller);
  let most = EVENTS;
  let shownOf = ""; // the thread and line whose events are shown

  const found = () => filteredEvents(
    state.talk?.events ?? [], {agent: agents.value, kind: kinds.value, word: word.value.trim()},
  );
  const showSoon = paced(show);

  function filter() {
    most = EVENTS;
    show();
  }

  function showMore() {
    most += EVENTS_MORE;
    show();
  }

  function show() {
    if (state.view !== "events") return;
    const key = JSON.stringify([state.threadId, state.line]);
    const isOther = key !== shownOf;
    if (isOther) most = EVENTS;
    shownOf = key;
    const isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
    const every = state.talk?.events ?? [];
    putOptions(agents, "All agents", every.map((each) => each.agent_name));
    putOptions(kinds, "All types", every.map((each) => each.kind));
    const events = found();
    putEntries(list, events.slice(-most).map(rowEntry));
    more.hidden = events.length <= most;
    readAll.hidden = !state.talk || state.talk.isWhole;
    copyAll.disabled = !events.length;
    setText(count, countText(events.length, every.length));
    if (isOther || isAtEnd) scroller.scrollTop = scroller.scrollHeight;
    if (isOther && !state.talk) shownOf = ""; // the first events are still to come
  }

  /**
   * @param {number} number
   * @param {number} all
   */
  function countText(number, all) {
    if (!state.threadId || state.thread?.status === "new") return "No events yet";
    if (!state.talk) return state.thread?.changed ? "The tree has changed" : "Loading …";
    const part = state.talk.isWhole ? "" : " of the last turns";
    return number === all ? `${all} events${part}` : `${number} of ${all} events${part}`;
  }

  return {
    node,
    /**
     * @param {State} _
     * @param {Changed} changed
     */
    update(_, changed) {
      if (["talk", "thread", "threadId", "line", "view"].some((key) => changed.has(key))) showSoon();
    },
  };
}

/**
 * Put names into a select, and keep its value.
 *
 * @param {HTMLSelectElement} select
 * @param {string} all
 * @param {string[]} names
 */
function putOptions(select, all, names) {
  const {value} = select;
  const options = [...new Set([...names, ...(value ? [value] : [])])].sort();
  if (select.options.length === options.length + 1) {
    if (options.every((each, i) => select.options[i + 1].value === each)) return;
  }
  select.replaceChildren(
    el("option", {value: ""}, all),
    ...options.map((each) => el("option", {value: each}, shortText(each, 60))),
  );
  select.value = value;
}

/**
 * @param {AgentEvent} event
 * @returns {Entry}
 */
function rowEntry(event) {
  return [event.id, event.cursor, () => rowView(event)];
}

/** @param {AgentEvent} event */
function rowView(event) {
  const {kind, address, time} = event;
  const title = [
    el("span", {class: "event-time quiet"}, timeText(time)),
    el("span", {class: "event-kind", "data-kind-of": kind}, kind),
    el("span", {class: "event-address", title: address}, el("bdi", {}, shortText(address, 120))),
    el("span", {class: "gist"}, shortText(gistOf(event), 160)),
  ];
  const body = () => {
    const copyOne = copyButton("Copy", () => plainEvent(event), {class: "act"});
    return el("div", {class: "inside"}, dataView(plainEvent(event)), el("div", {class: "acts"}, copyOne));
  };
  return foldable(title, body, {class: "event-row"});
}

/**
 * Make a button that copies data as JSON, and then shows whether it was copied.
 *
 * @param {string} label
 * @param {() => unknown} read returns the data
 * @param {Attributes} [attributes]
 */
function copyButton(label, read, attributes) {
  const button = actionButton(label, async () => {
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(JSON.stringify(read(), null, 2));
    } catch {
      said = "Not copied";
    }
    setText(button, said);
    setTimeout(() => setText(button, label), COPIED_SECONDS * 1000);
  }, attributes);
  return button;
}
