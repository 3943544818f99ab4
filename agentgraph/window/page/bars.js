// The bars of a thread by id, merged from the updates of the server.

import {pathOf} from "./activations.js";

/** @import {Bar} from "./page.d.ts" */
/** @import {Timeline} from "./shapes.d.ts" */

const MOST_TEXT = 2000; // stored characters of a bar; the activation panel reads the complete text

/**
 * Merge bars into the known ones. A timeline that `continues` is added; another one replaces them.
 *
 * An enclosing bar may have started before the steps of the later timeline.
 *
 * @param {Map<string, Bar>} known
 * @param {Pick<Timeline, "bars" | "continues"> & {gone?: string[]}} timeline
 */
export function mergeBars(known, {bars, continues, gone = []}) {
  if (!continues) known.clear();
  for (const id of gone) known.delete(id);
  const outer = new Set([...known.values()].map((bar) => bar.inside));
  const since = bars.reduce((least, bar) => Math.min(least, bar.began), Infinity);
  for (const bar of bars) {
    const before = outer.has(bar.id) && bar.kind === "agent" ? known.get(bar.id) : null;
    if (before && before.began < since) Object.assign(bar, {began: before.began, step: before.step});
    if (bar.text.length > MOST_TEXT) bar.text = `${bar.text.slice(0, MOST_TEXT)}…`;
    known.set(bar.id, bar);
  }
}

/** Merge pauses into the known ones, as `mergeBars` merges bars.
 *
 * @param {Map<number, number>} known
 * @param {Pick<Timeline, "pauses" | "continues">} timeline
 */
export function mergePauses(known, {pauses, continues}) {
  if (!continues) known.clear();
  for (const [began, ended] of pauses) known.set(began, ended);
}

/**
 * Set the missing places of bars: the bar of an iteration has the place of its loop.
 *
 * @param {Iterable<Bar>} bars
 * @param {Map<string, string>} paths the ids of places, by their addresses without counters
 */
export function placeBars(bars, paths) {
  for (const bar of bars) bar.place ??= paths.get(pathOf(bar.address)) ?? null;
}

/**
 * Drop the oldest bars beyond a maximum number. Returns whether any were dropped.
 *
 * @param {Map<string, Bar>} known
 * @param {number} most
 */
export function dropOldest(known, most) {
  if (known.size <= most) return false;
  const bars = [...known.values()].sort((a, b) => a.began - b.began);
  for (const bar of bars.slice(0, bars.length - most)) known.delete(bar.id);
  return true;
}

/** Return the innermost failed bar: the one that started last.
 *
 * @param {Map<string, Bar>} bars
 */
export function lastFailed(bars) {
  /** @type {Bar | null} */
  let found = null;
  for (const bar of bars.values()) {
    if (bar.state === "failed" && (!found || bar.began >= found.began)) found = bar;
  }
  return found;
}
