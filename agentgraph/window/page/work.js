// How long bars worked: without waits for people, and without pauses before a resume.

/** @import {Bar} from "./page.d.ts" */

/** @typedef {[began: number, ended: number]} Span */

/**
 * The seconds that a bar worked, and that its questions waited; and which of them grows.
 *
 * @typedef {{seconds: number, waited: number, grows: "seconds" | "waited" | null}} Measured
 */

/** Return a function that measures bars.
 *
 * @param {Iterable<Bar>} bars all bars of the thread
 * @param {Iterable<Span>} pauses the times without an active run
 * @param {number} [now]
 * @returns {(bar: Bar) => Measured}
 */
export function makeMeasure(bars, pauses, now = Date.now() / 1000) {
  /** @type {Map<string | null, Span[]>} */
  const asked = new Map();
  const open = new Set(); // the bars with open questions
  let end = 0; // the end of a bar that has no own one: the last known time of the thread
  for (const bar of bars) {
    end = Math.max(end, bar.ended ?? bar.began);
    if (bar.kind !== "question") continue;
    const waits = asked.get(bar.inside) ?? [];
    waits.push([bar.began, bar.ended ?? now]);
    asked.set(bar.inside, waits);
    if (bar.ended === null) open.add(bar.inside);
  }
  const idle = [...pauses].sort(([a], [b]) => a - b);
  return (bar) => {
    const until = bar.ended ?? (bar.state === "running" ? now : end);
    const waits = asked.get(bar.id) ?? [];
    const free = clipped([...waits, ...within(idle, bar.began, until)], bar.began, until);
    const isRunning = bar.ended === null && bar.state === "running";
    return {
      seconds: Math.max(0, until - bar.began - lengthOf(free)),
      waited: lengthOf(waits),
      grows: open.has(bar.id) ? "waited" : isRunning ? "seconds" : null,
    };
  };
}

/** Return those of many sorted spans, of which none overlap, that are partly in another one.
 *
 * @param {Span[]} spans
 * @param {number} from
 * @param {number} to
 */
function within(spans, from, to) {
  let first = 0;
  let end = spans.length;
  while (first < end) {
    const middle = (first + end) >> 1;
    if (spans[middle][1] > from) end = middle;
    else first = middle + 1;
  }
  while (end < spans.length && spans[end][0] < to) end += 1;
  return spans.slice(first, end);
}

/**
 * @param {Span[]} spans
 * @param {number} from
 * @param {number} to
 */
function clipped(spans, from, to) {
  return spans
    .map(([began, ended]) => /** @type {Span} */ ([Math.max(began, from), Math.min(ended, to)]))
    .filter(([began, ended]) => ended > began);
}

/** Return the length of spans; where they overlap it counts once.
 *
 * @param {Span[]} spans
 */
function lengthOf(spans) {
  let length = 0;
  let until = -Infinity;
  for (const [began, ended] of [...spans].sort(([a], [b]) => a - b)) {
    length += Math.max(0, ended - Math.max(began, until));
    until = Math.max(until, ended);
  }
  return length;
}
