// The row of each bar of the timeline, by its enclosing bar and the concurrent bars.
//
// A bar is below its enclosing bar. Concurrent bars have their own rows, and the bars inside a bar
// stay together below it, as a block.

/** @import {Axis, Bar, Item, Layout, Piece, Wait} from "./page.d.ts" */

// states without an end: the time at which a run died is unknown
const OPEN = new Set(["running", "asks", "stopped"]);
const OVERLAP = 0.2; // tolerated share of the shorter bar, because clocks of processes differ

/** @typedef {{children: Item[]}} Block */
/** @typedef {{ended: number, length: number}[]} Ends */

/** Compute the layout of bars: {items, rows, begin, end, isOpen}.
 *
 * `rows` has the items of each row in the order of their start. `begin` and `end` are in seconds since
 * 1970; `end` is that of the finished bars.
 *
 * @param {Bar[]} bars
 * @returns {Layout}
 */
export function layOut(bars) {
  const items = [...bars].sort(byBegin).map(itemOf);
  const byId = new Map(items.map((item) => [item.bar.id, item]));
  /** @type {Block} */
  const top = {children: []};
  for (const item of items) {
    const around = byId.get(item.bar.inside ?? "");
    (around && around !== item ? around : top).children.push(item);
  }
  pack(top);
  const rows = rowsOf(top);
  return {items, rows, ...boundsOf(items)};
}

/**
 * @param {Bar} a
 * @param {Bar} b
 */
function byBegin(a, b) {
  return a.began - b.began || a.address.length - b.address.length || (a.id < b.id ? -1 : 1);
}

/**
 * @param {Bar} bar
 * @returns {Item}
 */
function itemOf(bar) {
  const isOpen = bar.ended === null && OPEN.has(bar.state);
  return {
    bar, label: bar.label || bar.agent_name, kind: bar.kind, state: bar.state, began: bar.began,
    ended: isOpen ? Infinity : Math.max(bar.ended ?? bar.began, bar.began), children: [], row: 0,
    offset: 0, number: 0,
  };
}

/** @param {Item[]} items */
function boundsOf(items) {
  let begin = Infinity;
  let end = -Infinity;
  let isOpen = false;
  let isWaiting = false;
  for (const {began, ended, state} of items) {
    begin = Math.min(begin, began);
    end = Math.max(end, Number.isFinite(ended) ? ended : began);
    if (state === "running") isOpen = true;
    if (state !== "running" && ended === Infinity) isWaiting = true;
  }
  return items.length ? {begin, end, isOpen, isWaiting} : {begin: 0, end: 1, isOpen, isWaiting};
}

/** Return the number of rows in the block of an item, and set the offset of each item inside.
 *
 * @param {Block} item
 * @returns {number}
 */
function pack(item) {
  /** @type {Ends} */
  const ends = []; // end of the last block in each row
  for (const child of item.children) {
    const height = pack(child);
    child.offset = freeRows(ends, child, height);
    const length = child.ended - child.began;
    for (let row = child.offset; row < child.offset + height; row++) {
      ends[row] = {ended: child.ended, length};
    }
  }
  return 1 + ends.length;
}

/**
 * @param {Ends} ends
 * @param {Item} child
 * @param {number} height
 */
function freeRows(ends, child, height) {
  const length = child.ended - child.began;
  let first = 0;
  for (let row = 0; row < first + height && row < ends.length; row++) {
    const slack = OVERLAP * Math.min(length, ends[row].length);
    if (ends[row].ended > child.began + (Number.isFinite(slack) ? slack : 0)) first = row + 1;
  }
  return first;
}

/** @param {Block} top */
function rowsOf(top) {
  /** @type {Item[][]} */
  const rows = [];
  /** @type {[Item, number][]} */
  const waiting = top.children.map((child) => [child, child.offset]);
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [item, row] = next;
    item.row = row;
    while (rows.length <= row) rows.push([]);
    rows[row].push(item);
    for (const child of item.children) waiting.push([child, row + 1 + child.offset]);
  }
  for (const row of rows) {
    row.sort((a, b) => a.began - b.began);
    row.forEach((item, number) => {
      item.number = number;
    });
  }
  return rows;
}

// the axis of time

const SHORTEST_WAIT = 1; // minimum seconds of a hidden wait
const WAIT_SHARE = 0.05; // minimum share of a hidden wait in the active time
const OPEN_SHARE = 0.08; // drawn length of a wait without an end, as a share of the whole time
const SHOWN_SHARE = 0.02; // drawn length of a wait, as a share of the active time

/** Make the axis: {toUnits(time), toTime(units), lengthAt(now), waits}.
 *
 * Units are seconds since the start; hidden waits have a short fixed length. The axis ends now if
 * something is running.
 *
 * @param {Layout} layout
 * @param {boolean} isShort
 * @param {number} now
 * @returns {Axis}
 */
export function makeAxis({items, begin, end, isOpen, isWaiting}, isShort, now) {
  const until = isWaiting ? end + Math.max(0.01, (end - begin) * OPEN_SHARE) : end;
  const last = isOpen ? Math.max(until, now) : until;
  const whole = {from: begin, at: 0, speed: 1, to: Infinity};
  const pieces = isShort ? shortPieces(items, begin, last, now) : [whole];
  /** @param {number} time */
  const toUnits = (time) => {
    const piece = lastBefore(pieces, time, "from");
    return piece.at + (time - piece.from) * piece.speed;
  };
  return {
    toUnits,
    toTime(units) {
      const piece = lastBefore(pieces, units, "at");
      return piece.from + (units - piece.at) / piece.speed;
    },
    lengthAt: (time) => Math.max(toUnits(isOpen ? Math.max(until, time) : until), 0.001),
    waits: pieces.filter(({speed}) => speed < 1)
      .map((piece) => ({...piece, isOpen: isWaiting && !isOpen && piece.to === last})),
  };
}

/** Return the units of a time that counts no hidden waits.
 *
 * @param {number} seconds
 * @param {Wait[]} waits
 */
export function unitsOf(seconds, waits) {
  return waits.reduce((units, wait) => (wait.at < units ? units + bandLength(wait) : units), seconds);
}

/** Return the seconds before a position, without hidden waits.
 *
 * @param {number} units
 * @param {Wait[]} waits
 */
export function shownTime(units, waits) {
  return waits.reduce((left, wait) => (wait.at < units ? left - bandLength(wait) : left), units);
}

/** Return the drawn units of a hidden wait.
 *
 * @param {Wait} wait
 */
export function bandLength({from, to, speed}) {
  return (to - from) * speed;
}

/** Return whether long waits are more than half of the whole time.
 *
 * @param {Layout} layout
 * @param {number} now
 */
export function isMostlyWaits(layout, now) {
  const axis = makeAxis(layout, true, now);
  const waited = axis.waits.reduce((sum, {from, to}) => sum + to - from, 0);
  return waited > (axis.toTime(axis.lengthAt(now)) - layout.begin) / 2;
}

/** Return the last of sorted entries whose key is at most a value, or the first entry.
 *
 * @template {string} K
 * @template {Record<K, number>} T
 * @param {T[]} entries
 * @param {number} value
 * @param {K} key
 */
function lastBefore(entries, value, key) {
  let low = 0;
  let high = entries.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (entries[middle][key] <= value) low = middle;
    else high = middle - 1;
  }
  return entries[low];
}

/** Return the index of the first item in a row that ends after a time; items do not overlap.
 *
 * @param {Item[]} items
 * @param {number} time
 */
export function firstAt(items, time) {
  const found = items.length ? lastBefore(items, time, "began") : null;
  return found ? Math.max(0, found.number - 1) : 0;
}

/**
 * @param {Item[]} items
 * @param {number} begin
 * @param {number} last
 * @param {number} now
 */
function shortPieces(items, begin, last, now) {
  /** @type {[from: number, to: number][]} */
  const active = [];
  for (const item of items) {
    const isWork = !item.children.length && item.kind !== "question" && item.state !== "asks";
    const ended = Number.isFinite(item.ended) ? item.ended : now;
    if (isWork && item.bar.place_kind !== "human") active.push([item.began, ended]);
  }
  /** @type {[from: number, to: number][]} */
  const waits = [];
  let worked = 0;
  let until = begin;
  /** @type {(from: number, to: number) => unknown} */
  const wait = (from, to) => to - from > SHORTEST_WAIT && waits.push([from, to]);
  for (const [from, to] of active) {
    if (from > until) wait(until, from);
    worked += Math.max(0, to - Math.max(from, until));
    until = Math.max(until, to);
  }
  wait(until, last);
  const shown = Math.max(0.05, worked * SHOWN_SHARE);
  let before = {from: begin, at: 0, speed: 1, to: Infinity};
  const pieces = [before];
  for (const [from, to] of waits) {
    if (to - from < worked * WAIT_SHARE) continue;
    const at = before.at + (from - before.from) * before.speed;
    pieces.push({from, at, speed: shown / (to - from), to});
    before = {from: to, at: at + shown, speed: 1, to: Infinity};
    pieces.push(before);
  }
  return pieces;
}
