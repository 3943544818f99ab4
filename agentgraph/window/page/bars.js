// The bars of a thread that the page knows: by id, merged from what the server sends.

import {pathOf} from "./activations.js";

/** @import {Bar} from "./page.d.ts" */
/** @import {Timeline} from "./shapes.d.ts" */

const MOST_TEXT = 2000; // characters of a bar that are kept; one activation is read whole

/**
 * Merge bars into those that are known. What `continues` is added; anything else takes their place.
 *
 * @param {Map<string, Bar>} known
 * @param {Timeline & {gone?: string[]}} timeline
 */
export function mergeBars(known, {bars, continues, gone = []}) {
  if (!continues) known.clear();
  for (const id of gone) known.delete(id);
  for (const bar of bars) {
    const before = known.get(bar.id);
    const isRetry = before && before.ended !== null && bar.began >= before.ended;
    if (before && !isRetry) bar.began = Math.min(bar.began, before.began);
    if (bar.text.length > MOST_TEXT) bar.text = `${bar.text.slice(0, MOST_TEXT)}…`;
    known.set(bar.id, bar);
  }
}

/**
 * Set the places of bars that have none: the bar of a lap is at the place of its loop.
 *
 * @param {Iterable<Bar>} bars
 * @param {Map<string, string>} paths the ids of places, by their addresses without counters
 */
export function placeBars(bars, paths) {
  for (const bar of bars) bar.place ??= paths.get(pathOf(bar.address)) ?? null;
}

/**
 * Drop the oldest bars of more than some number. Returns whether there were any.
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
