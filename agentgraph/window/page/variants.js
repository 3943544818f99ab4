// Variants side by side: how their threads stand, what they said last, what they cost.

import {el, longText, shortText} from "./elements.js";
import {actionButton, putEntries, tokensText} from "./entries.js";

const SECONDS_RUNNING = 1; // between two looks
const SECONDS_AT_REST = 4;
const MOST_GROUPS = 20;

/** Make the list of variants: {node, add, show, related}; `compare(threadId)` compares with one. */
export function makeVariants(store, backend, compare) {
  const node = el("div", {class: "variant-groups"});
  const groups = []; // {point, threads: {name: id}, stands: {name: thread}}
  let timer = 0;

  /** Show the threads of variants of what came after a point of a thread. */
  async function add(point, threads) {
    groups.unshift({point, threads, stands: {}});
    groups.splice(MOST_GROUPS);
    show();
    await look();
    node.scrollIntoView({block: "nearest"});
  }

  /** Return the threads that a thread came from, or that came from it, the latest first. */
  function related(threadId) {
    const of = groups.filter((each) => isIn(each, threadId));
    return of.flatMap(({point, threads}) => {
      const all = [point.thread_id, ...Object.values(threads)];
      return all.filter((each) => each !== threadId);
    });
  }

  function isIn({point, threads}, threadId) {
    return point.thread_id === threadId || Object.values(threads).includes(threadId);
  }

  async function look() {
    clearTimeout(timer);
    const isAnyRunning = [];
    for (const group of groups) {
      for (const [name, threadId] of Object.entries(group.threads)) {
        const before = group.stands[name];
        const thread = await backend.call("thread", {thread_id: threadId}).catch(() => null);
        if (thread) group.stands[name] = thread;
        isAnyRunning.push((thread ?? before)?.status === "running");
      }
    }
    show();
    const seconds = isAnyRunning.some(Boolean) ? SECONDS_RUNNING : SECONDS_AT_REST;
    clearTimeout(timer);
    if (node.isConnected && groups.length) timer = setTimeout(look, seconds * 1000);
  }

  /** Show the variants of the thread that is open. */
  function show() {
    putEntries(
      node,
      groups.filter((each) => isIn(each, store.state.threadId)).map((group) => {
        const {point, threads} = group;
        const key = Object.values(threads).join(" ");
        const stands = Object.keys(threads).map((name) => {
          const {status, last, usage} = group.stands[name] ?? {};
          return [name, status, last, usage];
        });
        return [key, stands, () => groupView(point, threads, stands)];
      }),
    );
  }

  function groupView(point, threads, stands) {
    const columns = stands.map(([name, status = "…", last = "", usage]) => {
      const id = threads[name];
      return el(
        "article",
        {class: "column"},
        el("h4", {}, shortText(name, 60)),
        el(
          "p",
          {},
          el("span", {class: "pill", "data-state": status}, status),
          " ",
          el("span", {class: "quiet"}, tokensText(usage)),
        ),
        longText(last, {most: 600}),
        el(
          "div",
          {class: "row"},
          actionButton("Open", () => store.open(id), {"aria-label": `Open ${name}`}),
          actionButton("Compare", () => compareTo(point, id), {
            "aria-label": `Compare ${name}`,
          }),
        ),
      );
    });
    return el(
      "section",
      {},
      el("p", {class: "quiet"}, "Variants from ", el("code", {}, point.at)),
      el("div", {class: "columns"}, ...columns),
    );
  }

  /** Compare the open thread with a variant; a variant itself with the thread that it came from. */
  function compareTo(point, id) {
    compare(id === store.state.threadId ? point.thread_id : id);
  }

  return {node, add, show, related};
}
