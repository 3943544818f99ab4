// Variants side by side: how their threads stand, what they said last, what they cost.

import {el, longText, settings, shortText} from "./elements.js";
import {actionButton, putEntries, tokensText} from "./entries.js";

/** @import {Backend, Store} from "./page.d.ts" */
/** @import {Spot, Thread} from "./shapes.d.ts" */

const SECONDS_RUNNING = 1; // between two looks
const SECONDS_AT_REST = 4;
const MOST_GROUPS = 20; // that this browser keeps
const KEPT = "variants"; // the setting with them

/** @typedef {{point: Spot, threads: {[name: string]: string}}} KeptGroup */
/** @typedef {KeptGroup & {stands: {[name: string]: Thread}}} Group */
/** @typedef {[name: string, Thread["status"]?, last?: string, usage?: Thread["usage"]]} Stand */

/** Make the list of variants: {node, add, show, related}; `compare(threadId)` compares with one.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {(threadId: string) => void} compare
 */
export function makeVariants(store, backend, compare) {
  const node = el("div", {class: "variant-groups"});
  /** @type {KeptGroup[]} */
  const kept = settings.get(KEPT, []);
  /** @type {Group[]} */
  const groups = kept.map((each) => ({...each, stands: {}}));
  let timer = 0;

  /** Show the threads of variants of what came after a point of a thread.
   *
   * @param {Spot} point
   * @param {KeptGroup["threads"]} threads
   */
  async function add(point, threads) {
    groups.unshift({point, threads, stands: {}});
    groups.splice(MOST_GROUPS);
    settings.set(KEPT, groups.map((each) => ({point: each.point, threads: each.threads})));
    draw();
    await look();
    node.scrollIntoView({block: "nearest"});
  }

  /** Return the threads that a thread came from, or that came from it, the latest first.
   *
   * @param {string | null} threadId
   */
  function related(threadId) {
    return groupsOf(threadId).flatMap(({point, threads}) => {
      const all = [point.thread_id, ...Object.values(threads)];
      return all.filter((each) => each !== threadId);
    });
  }

  /** @param {string | null} threadId */
  function groupsOf(threadId) {
    return groups.filter((each) => isIn(each, threadId));
  }

  /**
   * @param {KeptGroup} group
   * @param {string | null} threadId
   */
  function isIn({point, threads}, threadId) {
    return [point.thread_id, ...Object.values(threads)].some((each) => each === threadId);
  }

  async function look() {
    clearTimeout(timer);
    const looked = groupsOf(store.state.threadId);
    for (const {threads, stands} of looked) {
      for (const [name, id] of Object.entries(threads)) {
        const thread = await backend.call("thread", {thread_id: id}).catch(() => null);
        if (thread) stands[name] = thread;
      }
    }
    draw();
    const stands = looked.flatMap((each) => Object.values(each.stands));
    const isAnyRunning = stands.some((each) => each.status === "running");
    clearTimeout(timer);
    if (!node.isConnected || !looked.length) return;
    timer = setTimeout(look, (isAnyRunning ? SECONDS_RUNNING : SECONDS_AT_REST) * 1000);
  }

  /** Show the variants of the thread that is open, and go on looking how they stand. */
  function show() {
    draw();
    if (groupsOf(store.state.threadId).length) look();
  }

  function draw() {
    /** @type {[string, Stand[], () => HTMLElement][]} */
    const entries = groupsOf(store.state.threadId).map((group) => {
      const {point, threads} = group;
      /** @type {Stand[]} */
      const stands = Object.keys(threads)
        .filter((name) => group.stands[name]?.status !== "new") // it was deleted
        .map((name) => {
          const {status, last, usage} = group.stands[name] ?? {};
          return [name, status, last, usage];
        });
      const key = Object.values(threads).join(" ");
      return [key, stands, () => groupView(point, threads, stands)];
    });
    putEntries(node, entries.filter(([, stands]) => stands.length));
  }

  /**
   * @param {Spot} point
   * @param {KeptGroup["threads"]} threads
   * @param {Stand[]} stands
   */
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

  /** Compare the open thread with a variant; a variant itself with the thread that it came from.
   *
   * @param {Spot} point
   * @param {string} id
   */
  function compareTo(point, id) {
    compare(id === store.state.threadId ? point.thread_id : id);
  }

  return {node, add, show, related};
}
