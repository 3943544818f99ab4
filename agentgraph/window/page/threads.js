// The list of threads: id, status, last text, cost and open questions.

import {atNextFrame, countText, el, setText, shortId, shortText, timeText} from "./elements.js";
import {STATUS_MARKS, stateText} from "./states.js";
import {makeOthersButton, otherTree, showTree} from "./trees.js";

/** @import {Changed, State, Store} from "./page.d.ts" */
/** @import {ThreadRow} from "./shapes.d.ts" */

const STATUSES = ["running", "paused", "failed", "stopped", "done"];
const SEARCH_WAIT = 200; // milliseconds after the last key

/** @param {Store} store */
export function makeThreads(store) {
  const {state} = store;
  const search = el("input", {
    type: "search", class: "thread-search", placeholder: "Search threads  ( / )",
    "aria-label": "Search threads", autocomplete: "off", spellcheck: "false",
  });
  const filter = el("select", {class: "thread-filter", "aria-label": "Status filter"},
    el("option", {value: ""}, "All"),
    ...STATUSES.map((status) => el("option", {value: status}, stateText(status))),
  );
  const list = el("ul", {class: "thread-list", "aria-label": "Threads"});
  const more = smallButton("thread-more quiet-button", "Show more", () => store.listMore());
  const others = makeOthersButton((isShown) => store.listOthers(isShown));
  const count = el("p", {class: "thread-count quiet", role: "status"});
  const start = el("button", {type: "button", class: "new-run primary"}, "New run");
  const node = el("section", {class: "threads", "aria-label": "Threads"},
    el("div", {class: "threads-head"}, start, search, filter), list, count, more, others.node);
  /** @type {Map<string, ReturnType<typeof threadRow>>} */
  const rows = new Map(); // by thread id
  /** @type {string | null} */
  let confirming = null; // the id of the thread whose deletion needs a confirmation
  let timer = 0;

  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => store.find(search.value.trim()), SEARCH_WAIT);
  });
  search.addEventListener("keydown", (key) => {
    if (key.key === "Enter") {
      const [first] = state.threads?.threads ?? [];
      if (first) store.open(first.thread_id);
    }
  });
  filter.addEventListener("change", () => store.find(search.value.trim(), filter.value));
  start.addEventListener("click", () => node.dispatchEvent(new CustomEvent("newrun", {bubbles: true})));

  /** Request the confirmation to delete a thread.
   *
   * @param {string | null} id
   */
  function ask(id) {
    confirming = id;
    show();
  }

  /** @param {string} id */
  async function remove(id) {
    confirming = null;
    await store.want("delete", {thread_id: id});
    if (!state.error && state.threadId === id) store.open(null);
    store.refreshThreads();
  }

  /** @param {string} id */
  async function copy(id) {
    const known = new Set(state.threads?.threads.map((each) => each.thread_id));
    let to = `${id}-copy`;
    for (let number = 2; known.has(to); number++) to = `${id}-copy-${number}`;
    await store.want("copy", {thread_id: id, to});
    if (state.error) return;
    await store.refreshThreads();
    store.open(to);
  }

  const show = atNextFrame(() => {
    start.disabled = Boolean(state.about?.is_read_only);
    others.update(state);
    if (!state.threads) return setText(count, "Loading …");
    const {threads, total, more: hasMore = false} = state.threads;
    const ids = new Set(threads.map((each) => each.thread_id));
    for (const [id, row] of rows) {
      if (!ids.has(id)) {
        row.node.remove();
        rows.delete(id);
      }
    }
    threads.forEach((thread, number) => {
      const id = thread.thread_id;
      const row = rows.get(id) ?? threadRow(id);
      rows.set(id, row);
      row.show(thread, id === state.threadId, id === confirming);
      const there = list.children[number] ?? null;
      if (there !== row.node) list.insertBefore(row.node, there);
    });
    more.hidden = threads.length >= total && !hasMore;
    const isAll = !state.search && !state.status;
    if (!threads.length && isAll) setText(count, "No threads yet. Start a new run.");
    else if (!threads.length) setText(count, hasMore ? "No newer thread matches." : "No thread matches.");
    else if (hasMore) setText(count, `${threads.length} threads or more`);
    else if (threads.length < total) setText(count, `${threads.length} of ${countText(total)} threads`);
    else setText(count, "");
    return undefined;
  });

  /** @param {string} id */
  function threadRow(id) {
    const mark = el("span", {class: "mark"});
    const name = el("bdi", {class: "thread-name"}, shortId(id));
    const badge = el("span", {class: "badge", hidden: true});
    const first = el("span", {class: "thread-first", dir: "auto"});
    const last = el("span", {class: "thread-last quiet", dir: "auto"});
    const facts = el("span", {class: "thread-facts quiet"});
    const open = el("button", {type: "button", class: "thread-open", title: shortText(id, 300)},
      el("span", {class: "thread-title"}, mark, name, badge), first, last, facts);
    const tools = el("span", {class: "thread-tools"});
    const row = el("li", {class: "thread"}, open, tools);
    row.dataset.thread = shortText(id, 200);
    open.addEventListener("click", () => {
      confirming = null;
      const {trees = []} = state.about ?? {};
      if (isOther && trees.length > 1) return showTree(row, {thread: id});
      if (state.threadId !== id || state.line) store.open(id);
      return undefined;
    });
    let shownTools = "";
    let isOther = false; // whether another tree ran the thread

    /** @param {"own" | "confirm" | ""} kind */
    function showTools(kind) {
      if (kind === shownTools) return;
      shownTools = kind;
      tools.replaceChildren(...(kind === "own" ? own() : kind === "confirm" ? confirm() : []));
    }

    function own() {
      return [
        smallButton("thread-copy quiet-button", "Copy", () => copy(id)),
        smallButton("thread-delete quiet-button", "Delete", () => ask(id)),
      ];
    }

    function confirm() {
      return [
        el("span", {role: "alert"}, "Delete thread permanently?"),
        smallButton("thread-really danger", "Delete", () => remove(id)),
        smallButton("thread-keep quiet-button", "Keep", () => ask(null)),
      ];
    }

    return {
      node: row,
      /**
       * @param {ThreadRow} thread
       * @param {boolean} isOpen
       * @param {boolean} isConfirming
       */
      show(thread, isOpen, isConfirming) {
        const {status} = thread;
        row.classList.toggle("is-open", isOpen);
        if (isOpen) open.setAttribute("aria-current", "true");
        else open.removeAttribute("aria-current");
        mark.dataset.state = status;
        setText(mark, STATUS_MARKS[status] ?? "○");
        mark.title = stateText(status);
        badge.hidden = !thread.pending;
        setText(badge, thread.pending ? `${thread.pending} open` : "");
        setText(first, shortText(thread.first, 160));
        first.hidden = !thread.first;
        const words = thread.error || thread.last;
        setText(last, shortText(words, 160));
        last.hidden = !words;
        const tree = otherTree(state, thread);
        isOther = tree !== "";
        const of = tree ? [`of ${shortText(tree, 60)}`] : [];
        const tokens = thread.tokens ? [`${countText(thread.tokens)} tokens`] : [];
        setText(facts, [...of, stateText(status), beganText(thread), ...tokens].filter(Boolean).join(" · "));
        facts.title = thread.updated ? `Last step saved ${timeText(thread.updated)}` : "";
        showTools(isConfirming ? "confirm" : isOpen ? "own" : "");
      },
    };
  }

  return {
    node,
    search,
    /**
     * @param {State} _
     * @param {Changed} changed
     */
    update(_, changed) {
      if (["threads", "threadId", "status", "error", "about"].some((key) => changed.has(key))) show();
    },
  };
}

/** Return the start time of a thread, by which the list is sorted.
 *
 * @param {ThreadRow} thread
 */
function beganText({began, updated}) {
  return began ? `started ${timeText(began)}` : timeText(updated);
}

/** Make a button of a row.
 *
 * @param {string} name
 * @param {string} text
 * @param {() => unknown} onclick
 */
function smallButton(name, text, onclick) {
  return el("button", {type: "button", class: name, onclick}, text);
}
