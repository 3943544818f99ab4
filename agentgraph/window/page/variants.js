// Variants in columns: the status, the last text and the cost of their threads.

import {el, longText, settings, shortText} from "./elements.js";
import {actionButton, costText, putEntries, tokensText} from "./entries.js";
import {stateText} from "./states.js";

/** @import {Backend, Store} from "./page.d.ts" */
/** @import {Spot, Thread} from "./shapes.d.ts" */

const SECONDS_RUNNING = 1; // seconds between reads while a variant is running
const SECONDS_AT_REST = 4;
const MOST_GROUPS = 20; // maximum number of groups that the browser stores
const KEPT = "variants"; // the name of the setting with the groups

/** @typedef {{point: Spot, threads: {[name: string]: string}}} KeptGroup */
/** @typedef {KeptGroup & {statuses: {[name: string]: Thread}}} Group */
/**
 * @typedef {[name: string, Thread["status"]?, last?: string, usage?: Thread["usage"],
 *   cost?: Thread["cost"]]} VariantStatus
 */

/** Make the list of variants: {node, add, show, related}; it calls `compare(threadId)`.
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
  const groups = kept.map((each) => ({...each, statuses: {}}));
  let timer = 0;

  /** Show the threads of variants that start at a point of a thread.
   *
   * @param {Spot} point
   * @param {KeptGroup["threads"]} threads
   */
  async function add(point, threads) {
    groups.unshift({point, threads, statuses: {}});
    groups.splice(MOST_GROUPS);
    settings.set(KEPT, groups.map((each) => ({point: each.point, threads: each.threads})));
    draw();
    await look();
    node.scrollIntoView({block: "nearest"});
  }

  /** Return the source and the variants of a thread, the latest first.
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
    for (const {threads, statuses} of looked) {
      for (const [name, id] of Object.entries(threads)) {
        const thread = await backend.call("thread", {thread_id: id}).catch(() => null);
        if (thread) statuses[name] = thread;
      }
    }
    draw();
    const statuses = looked.flatMap((each) => Object.values(each.statuses));
    const isAnyRunning = statuses.some((each) => each.status === "running");
    clearTimeout(timer);
    if (!node.isConnected || !looked.length) return;
    timer = setTimeout(look, (isAnyRunning ? SECONDS_RUNNING : SECONDS_AT_REST) * 1000);
  }

  /** Show the variants of the open thread, and update their status regularly. */
  function show() {
    draw();
    if (groupsOf(store.state.threadId).length) look();
  }

  function draw() {
    /** @type {[string, VariantStatus[], () => HTMLElement][]} */
    const entries = groupsOf(store.state.threadId).map((group) => {
      const {point, threads} = group;
      /** @type {VariantStatus[]} */
      const statuses = Object.keys(threads)
        .filter((name) => group.statuses[name]?.status !== "new") // the thread was deleted
        .map((name) => {
          const {status, last, usage, cost} = group.statuses[name] ?? {};
          return [name, status, last, usage, cost];
        });
      const key = Object.values(threads).join(" ");
      return [key, statuses, () => groupView(point, threads, statuses)];
    });
    putEntries(node, entries.filter(([, statuses]) => statuses.length));
  }

  /**
   * @param {Spot} point
   * @param {KeptGroup["threads"]} threads
   * @param {VariantStatus[]} statuses
   */
  function groupView(point, threads, statuses) {
    const columns = statuses.map(([name, status = "…", last = "", usage, cost]) => {
      const id = threads[name];
      return el(
        "article",
        {class: "column"},
        el("h4", {}, shortText(name, 60)),
        el(
          "p",
          {},
          el("span", {class: "pill", "data-state": status}, stateText(status)),
          " ",
          el("span", {class: "quiet"}, [tokensText(usage), costText(cost)].filter(Boolean).join(" · ")),
        ),
        longText(last, {most: 600}),
        el(
          "div",
          {class: "row"},
          actionButton("Open thread", () => store.open(id), {"aria-label": `Open ${name}`}),
          actionButton("Compare thread", () => compareTo(point, id), {
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

  /** Compare the open thread with a variant, or the open variant with its source thread.
   *
   * @param {Spot} point
   * @param {string} id
   */
  function compareTo(point, id) {
    compare(id === store.state.threadId ? point.thread_id : id);
  }

  return {node, add, show, related};
}
