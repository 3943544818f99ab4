// What bars mean for the places of a tree: where an activation is, and how each place stands.

const PART = /^([^[({]*)(?:\(([^()]*)\))?(?:\{(\d+)\})?(?:\[(\d+)\])?$/;
const CACHE_SIZE = 20000;
const parsed = new Map();

/** Return whether an address is around another one: that one has more parts, or counters. */
export function isAround(outer, inner) {
  return inner.length > outer.length && inner.startsWith(outer) && "/[({".includes(inner[outer.length]);
}

/** Return the parts of an address: [{name, call, key, attempt, count}], outermost first.
 *
 * `count` is the iteration of a loop, the hops of a swarm; `call` the number or name of a call or item.
 */
export function addressParts(address) {
  let parts = parsed.get(address);
  if (parts) return parts;
  if (parsed.size > CACHE_SIZE) parsed.clear();
  parts = String(address).split("/").map(addressPart);
  parsed.set(address, parts);
  return parts;
}

function addressPart(text) {
  const match = PART.exec(text);
  if (!match) return {name: text, call: null, key: null, attempt: null, count: null};
  const [, name, call, attempt, count] = match;
  const colon = call === undefined ? -1 : call.indexOf(":");
  return {
    name,
    call: call === undefined ? null : colon < 0 ? call : call.slice(0, colon),
    key: colon < 0 ? null : unquoted(call.slice(colon + 1)),
    attempt: attempt === undefined ? null : Number(attempt),
    count: count === undefined ? null : Number(count),
  };
}

function unquoted(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Return what of a call says which one it is: its number without the attempt, or its name. */
export function callOf(part) {
  return /^\d+\.\d+$/.test(part.call) ? part.call.split(".")[0] : part.call;
}

/** Return the places of a tree, by their ids: {node, parent, depth, counter}.
 *
 * `counter` says what tells the activations of a place apart: "iteration", "hop", "item", "call".
 */
export function placesOf(tree) {
  const places = new Map();
  const walk = (node, parent, depth) => {
    const place = {node, parent, depth, counter: counterOf(node, parent)};
    places.set(node.id, place);
    for (const child of node.children) walk(child, place, depth + 1);
  };
  if (tree) walk(tree, null, 0);
  return places;
}

/** Return the ids of the places of a tree by their addresses without counters. */
export function pathsOf(tree) {
  const paths = new Map();
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

/** Return an address without its counters: the path of its place. */
export function pathOf(address) {
  return addressParts(address).map((part) => part.name).join("/");
}

function counterOf(node, parent) {
  if (node.kind === "loop") return "iteration";
  if (node.kind === "swarm") return "hop";
  if (node.is_called) return parent?.node.kind === "each" ? "item" : "call";
  return null;
}

/** Return the number that a counter has in an address; null if it has none. */
export function countAt(place, parts) {
  const part = parts[place.depth];
  if (!part) return null;
  const value = place.counter === "iteration" || place.counter === "hop" ? part.count : callOf(part);
  return value === null ? null : String(value);
}

const ORDER = ["running", "asks", "failed", "stopped", "done", "void"];

/** Return the state that stands out of several: what runs, waits or failed before what is done. */
export function worstState(states) {
  const found = new Set(states);
  return ORDER.find((state) => found.has(state)) ?? "idle";
}

/** Return how each place stands: by id {runs, seconds, tokens, state, last, counts}.
 *
 * Of loops, swarms, items and calls, `picks` may choose one by its counter: what is inside is then of
 * that one only. `counts` has the state of each: {state, key, own}, where `own` is its bar.
 *
 * @param bars all bars, in the order in which they began
 */
export function standings(places, bars, {turn = null, picks = new Map()} = {}) {
  const found = new Map();
  for (const id of places.keys()) found.set(id, newStanding());
  for (const bar of bars) {
    const place = places.get(bar.place);
    if (!place || (turn !== null && bar.turn !== turn)) continue;
    addBar(found, place, bar, picks);
  }
  const roots = [...places.values()].filter((place) => !place.parent);
  for (const root of roots) settle(places, found, root.node);
  return found;
}

function newStanding() {
  const counts = new Map();
  return {runs: 0, seconds: 0, tokens: 0, state: "idle", last: null, counts, countsBy: new Map()};
}

function addBar(found, place, bar, picks) {
  const parts = addressParts(bar.address);
  const way = [];
  for (let at = place; at; at = at.parent) way.push(at);
  let around = String(bar.turn); // the counters around: those of a loop in a loop begin anew in each lap
  for (const at of way.reverse()) {
    const count = at.counter ? countAt(at, parts) : null;
    if (count === null) continue;
    const isItself = at === place && bar.kind === "agent";
    addCount(countsOf(found.get(at.node.id), around), count, bar, parts[at.depth].key, isItself);
    around += ` ${count}`;
    const pick = picks.get(at.node.id);
    if (pick !== undefined && pick !== null && pick !== count) return;
  }
  addRun(found.get(place.node.id), place, bar, parts);
}

function addRun(standing, place, bar, parts) {
  standing.tokens += (bar.tokens_in ?? 0) + (bar.tokens_out ?? 0);
  if (bar.kind !== "agent") return;
  const isLap = place.counter === "iteration" && parts[place.depth]?.count !== null;
  if (isLap) return;
  if (!standing.last || bar.state !== "void" || standing.last.state === "void") standing.last = bar;
  if (bar.state === "void") return;
  standing.runs += 1;
  standing.seconds += Math.max(0, (bar.ended ?? bar.began) - bar.began);
}

/** Return the counts of a place inside what is around it; the last that are asked for are shown. */
function countsOf(standing, around) {
  if (!standing.countsBy.has(around)) standing.countsBy.set(around, new Map());
  standing.counts = standing.countsBy.get(around);
  return standing.counts;
}

function addCount(counts, count, bar, key, isItself) {
  if (!counts.has(count)) counts.set(count, {state: "idle", key, own: null, inside: new Map()});
  const known = counts.get(count);
  if (bar.kind !== "agent") return;
  if (isItself && (bar.state !== "void" || !known.own)) known.own = bar;
  else known.inside.set(bar.place, bar);
}

function settle(places, found, node) {
  const standing = found.get(node.id);
  const inside = node.children.map((child) => settle(places, found, child));
  for (const each of standing.counts.values()) {
    each.state = each.own?.state ?? worstState([...each.inside.values()].map((bar) => bar.state));
    delete each.inside;
  }
  for (const each of inside) standing.tokens += each.tokens;
  const active = inside.filter((each) => each.state !== "idle");
  if (standing.last) standing.state = standing.last.state;
  else if (active.length) standing.state = worstState(active.map((each) => each.state));
  standing.last ??= active.at(-1)?.last ?? null;
  return standing;
}
