// Maps bars to the places of a tree: the place of an activation, the status of a place.

import {valueOf} from "./maps.js";
import {makeMeasure} from "./work.js";

/**
 * @import {
 *   AddressPart, Bar, Count, Counter, Place, Places, ShownState, PlaceStatus, PlaceStatuses,
 * } from "./page.d.ts"
 */
/** @import {TreeNode} from "./shapes.d.ts" */
/** @typedef {Count & {inside: Map<string | null, Bar>}} MadeCount */
/** @typedef {Map<string, MadeCount>} MadeCounts */
/** @typedef {{counts: MadeCounts, countsBy: Map<string, MadeCounts>}} OwnCounts */
/** @typedef {Omit<PlaceStatus, "counts"> & OwnCounts} MadeStatus */

const PART = /^([^[({]*)(?:\(([^()]*)\))?(?:\{(\d+)\})?(?:\[(\d+)\])?$/;
const CACHE_SIZE = 20000;
/** @type {Map<string, AddressPart[]>} */
const parsed = new Map();

/** Return whether an address encloses another one: the other one has more parts, or counters.
 *
 * @param {string} outer
 * @param {string} inner
 */
export function isAround(outer, inner) {
  return inner.length > outer.length && inner.startsWith(outer) && "/[({".includes(inner[outer.length]);
}

/** Return the parts of an address: [{name, call, key, attempt, count}], outermost first.
 *
 * `count` is the iteration of a loop or the transfers of a swarm; `call` is the number or name of a
 * call or item.
 *
 * @param {string} address
 */
export function addressParts(address) {
  let parts = parsed.get(address);
  if (parts) return parts;
  if (parsed.size > CACHE_SIZE) parsed.clear();
  parts = String(address).split("/").map(addressPart);
  parsed.set(address, parts);
  return parts;
}

/**
 * @param {string} text
 * @returns {AddressPart}
 */
function addressPart(text) {
  const match = PART.exec(text);
  if (!match) return {name: text, call: null, key: null, attempt: null, count: null};
  const [, name, call, attempt, count] = match;
  const colon = call === undefined ? -1 : call.indexOf(":");
  return {
    name,
    call: call === undefined ? null : colon < 0 ? call : call.slice(0, colon),
    key: call === undefined || colon < 0 ? null : unquoted(call.slice(colon + 1)),
    attempt: attempt === undefined ? null : Number(attempt),
    count: count === undefined ? null : Number(count),
  };
}

/** @param {string} text */
function unquoted(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Return the innermost part of an address.
 *
 * @param {string} address
 */
export function lastPart(address) {
  const parts = addressParts(address);
  return parts[parts.length - 1];
}

/** Return the number of a call without its attempt, or the name of the call.
 *
 * @param {AddressPart} part
 */
export function callOf(part) {
  return /^\d+\.\d+$/.test(part.call ?? "") ? part.call?.split(".")[0] ?? null : part.call;
}

/** Return the places of a tree, by their ids: {node, parent, depth, counter}.
 *
 * `counter` is the counter that differs between the activations of a place: "iteration", "transfer", "item"
 * or "call".
 *
 * @param {TreeNode | null | undefined} tree
 * @returns {Places}
 */
export function placesOf(tree) {
  /** @type {Places} */
  const places = new Map();
  /**
   * @param {TreeNode} node
   * @param {Place | null} parent
   * @param {number} depth
   */
  const walk = (node, parent, depth) => {
    const place = {node, parent, depth, counter: counterOf(node, parent)};
    places.set(node.id, place);
    for (const child of node.children) walk(child, place, depth + 1);
  };
  if (tree) walk(tree, null, 0);
  return places;
}

/** Return the name of the value with the item that a place runs for; null outside an `each`.
 *
 * @param {Places} places
 * @param {string | null | undefined} id
 */
export function itemName(places, id) {
  let at = places.get(id ?? "")?.parent;
  while (at && !at.node.item) at = at.parent;
  return at?.node.item ?? null;
}

/** Return the ids of the places of a tree by their addresses without counters.
 *
 * @param {TreeNode | null | undefined} tree
 */
export function pathsOf(tree) {
  /** @type {Map<string, string>} */
  const paths = new Map();
  /**
   * @param {TreeNode} node
   * @param {string} path
   */
  const walk = (node, path) => {
    paths.set(path, node.id);
    const seen = new Map();
    for (const child of node.children) {
      const number = (seen.get(child.name) ?? 0) + 1;
      seen.set(child.name, number);
      walk(child, `${path}/${child.name}${number > 1 ? `#${number}` : ""}`);
    }
  };
  if (tree) walk(tree, tree.name);
  return paths;
}

/** Return an address without its counters: the path of its place.
 *
 * @param {string} address
 */
export function pathOf(address) {
  return addressParts(address).map((part) => part.name).join("/");
}

/**
 * @param {TreeNode} node
 * @param {Place | null} parent
 * @returns {Counter | null}
 */
function counterOf(node, parent) {
  if (node.kind === "loop") return "iteration";
  if (node.kind === "swarm") return "transfer";
  if (node.is_called) return parent?.node.kind === "each" ? "item" : "call";
  return null;
}

/** Return the number that a counter has in an address; null if it has none.
 *
 * @param {Place} place
 * @param {AddressPart[]} parts
 */
export function countAt(place, parts) {
  const part = parts[place.depth];
  if (!part) return null;
  const value = place.counter === "iteration" || place.counter === "transfer" ? part.count : callOf(part);
  return value === null ? null : String(value);
}

const TIMES = /** @type {const} */ (["seconds", "waited"]);
/** @type {ShownState[]} */
const ORDER = ["running", "asks", "failed", "stopped", "done", "void"];

/** Return the most important of several states: running, open or failed before done.
 *
 * @param {Iterable<ShownState>} states
 */
export function worstState(states) {
  const found = new Set(states);
  return ORDER.find((state) => found.has(state)) ?? "idle";
}

/** Return the status of each place: by id {runs, seconds, waited, tokens, state, last, counts}.
 *
 * `picks` may choose one iteration, transfer, item or call by its counter: the status of the places
 * inside is then that of the chosen one. `counts` has the state of each: {state, key, own}, where `own`
 * is its bar. `pauses` are the times without an active run, by their start.
 * The bars are in the order of their start.
 *
 * @param {Places} places
 * @param {Bar[]} bars
 * @param {{turn?: number | null, picks?: Map<string, string>, pauses?: Map<number, number>}} [options]
 * @returns {PlaceStatuses}
 */
export function placeStatuses(places, bars, {turn = null, picks = new Map(), pauses = new Map()} = {}) {
  const measure = makeMeasure(bars, pauses);
  /** @type {Map<string, MadeStatus>} */
  const found = new Map();
  for (const id of places.keys()) found.set(id, newStatus());
  for (const bar of bars) {
    const place = bar.place === null ? undefined : places.get(bar.place);
    if (!place || (turn !== null && bar.turn !== turn)) continue;
    addBar(found, place, bar, picks, measure);
  }
  const roots = [...places.values()].filter((place) => !place.parent);
  for (const root of roots) settle(found, root.node);
  return found;
}

/** Return statuses some seconds later; those that do not grow are the same objects.
 *
 * @param {PlaceStatuses} found
 * @param {number} seconds
 * @returns {PlaceStatuses}
 */
export function grownStatuses(found, seconds) {
  return new Map([...found].map(([id, status]) => {
    const {growing} = status;
    if (!growing.seconds && !growing.waited) return [id, status];
    const grown = TIMES.map((key) => [key, status[key] + growing[key] * seconds]);
    return [id, {...status, ...Object.fromEntries(grown)}];
  }));
}

/** @returns {MadeStatus} */
function newStatus() {
  const counts = new Map();
  const growing = {seconds: 0, waited: 0};
  return {
    runs: 0, seconds: 0, waited: 0, growing, tokens: 0, state: "idle", last: null, counts,
    countsBy: new Map(),
  };
}

/**
 * @param {Map<string, MadeStatus>} found
 * @param {Place} place
 * @param {Bar} bar
 * @param {Map<string, string>} picks
 * @param {ReturnType<typeof makeMeasure>} measure
 */
function addBar(found, place, bar, picks, measure) {
  const parts = addressParts(bar.address);
  const way = [];
  for (let at = /** @type {Place | null} */ (place); at; at = at.parent) way.push(at);
  let around = String(bar.turn); // the enclosing counters: an inner loop restarts in each iteration
  for (const at of way.reverse()) {
    const count = at.counter ? countAt(at, parts) : null;
    if (count === null) continue;
    const isItself = at === place && bar.kind === "agent";
    addCount(countsOf(valueOf(found, at.node.id), around), count, bar, parts[at.depth].key, isItself);
    around += ` ${count}`;
    const pick = picks.get(at.node.id);
    if (pick !== undefined && pick !== null && pick !== count) return;
  }
  addRun(valueOf(found, place.node.id), place, bar, parts, measure);
}

/**
 * @param {MadeStatus} status
 * @param {Place} place
 * @param {Bar} bar
 * @param {AddressPart[]} parts
 * @param {ReturnType<typeof makeMeasure>} measure
 */
function addRun(status, place, bar, parts, measure) {
  status.tokens += bar.tokens_in + bar.tokens_out;
  if (bar.kind !== "agent") return;
  const isLap = place.counter === "iteration" && parts[place.depth]?.count !== null;
  if (isLap) return;
  if (!status.last || bar.state !== "void" || status.last.state === "void") status.last = bar;
  if (bar.state === "void") return;
  status.runs += 1;
  const {seconds, waited, grows} = measure(bar);
  status.seconds += seconds;
  status.waited += waited;
  if (grows) status.growing[grows] += 1;
}

/** Return the counts of a place for one set of enclosing counters; the page shows the last ones.
 *
 * @param {MadeStatus} status
 * @param {string} around
 */
function countsOf(status, around) {
  const counts = status.countsBy.get(around) ?? new Map();
  status.countsBy.set(around, counts);
  status.counts = counts;
  return counts;
}

/**
 * @param {Map<string, MadeCount>} counts
 * @param {string} count
 * @param {Bar} bar
 * @param {string | null} key
 * @param {boolean} isItself
 */
function addCount(counts, count, bar, key, isItself) {
  const known = counts.get(count) ?? {state: "idle", key, own: null, inside: new Map()};
  counts.set(count, known);
  if (bar.kind !== "agent") return;
  if (isItself && (bar.state !== "void" || !known.own)) known.own = bar;
  else known.inside.set(bar.place, bar);
}

/**
 * @param {Map<string, MadeStatus>} found
 * @param {TreeNode} node
 * @returns {MadeStatus}
 */
function settle(found, node) {
  const status = valueOf(found, node.id);
  const inside = node.children.map((child) => settle(found, child));
  for (const each of status.counts.values()) {
    each.state = each.own?.state ?? worstState([...each.inside.values()].map((bar) => bar.state));
  }
  for (const each of inside) status.tokens += each.tokens;
  for (const [i, {is_called: isCalled}] of node.children.entries()) {
    if (node.kind !== "chat" || isCalled) continue; // the bar of an agent after a transfer is not inside
    for (const key of TIMES) {
      status[key] += inside[i][key];
      status.growing[key] += inside[i].growing[key];
    }
  }
  const active = inside.filter((each) => each.state !== "idle");
  if (status.last) status.state = status.last.state;
  else if (active.length) status.state = worstState(active.map((each) => each.state));
  status.last ??= active.at(-1)?.last ?? null;
  return status;
}
