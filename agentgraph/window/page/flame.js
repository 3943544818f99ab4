// The view by agent: where a turn spent time, tokens and money, and how long it waited for people.

import {pathOf} from "./activations.js";
import {countText, durationText, el, paced} from "./elements.js";
import {actionButton} from "./entries.js";
import {makeTurnPicker} from "./turn_picker.js";

/** @import {Backend, Changed, State, Store} from "./page.d.ts" */
/** @import {Flame, Frame} from "./shapes.d.ts" */

/** @typedef {"seconds" | "tokens" | "cost" | "waiting"} Measure */
/** @typedef {{frame: Frame, left: number, width: number, own: number, total: string, other: string}} Row */

/** @type {[Measure, string][]} */
const MEASURES = [["seconds", "Time"], ["tokens", "Tokens"], ["cost", "Cost"], ["waiting", "Waits"]];

const ABOUT_BARS = "dark: the agent itself; light: the agents inside; parallel agents add up";

/** Return the rows of a flame: shares from 0 to 1 of its widest frame, and amounts as texts.
 *
 * @param {Frame[]} frames
 * @param {Measure} by
 * @param {Frame[]} [others] the frames of another thread, whose totals are shown too
 * @returns {Row[]}
 */
export function flameRows(frames, by, others = []) {
  const key = /** @type {const} */ (`own_${by}`);
  const whole = Math.max(...frames.map((each) => Number(each[by] ?? 0))) || 1;
  const known = new Map(others.map((each) => [each.path, each]));
  /** @type {Map<string, number>} */
  const begins = new Map();
  return frames.map((frame) => {
    const around = frame.path.slice(0, Math.max(frame.path.lastIndexOf("/"), 0));
    const left = begins.get(around) ?? 0;
    const width = Number(frame[by] ?? 0) / whole;
    begins.set(around, left + width).set(frame.path, left);
    const other = known.get(frame.path);
    return {
      frame, left, width, own: Number(frame[key] ?? 0) / whole, total: amountText(by, frame[by]),
      other: other ? amountText(by, other[by]) : "",
    };
  });
}

/**
 * @param {Measure} by
 * @param {number | string | null} amount
 */
function amountText(by, amount) {
  if (amount === null) return "unknown";
  if (by === "cost") return String(amount);
  if (by === "tokens") return Number(amount) ? countText(Number(amount)) : "not reported";
  return durationText(Number(amount));
}

/** Make the view: {node, update}.
 *
 * @param {Store} store
 * @param {Backend} backend
 */
export function makeFlame(store, backend) {
  const {state} = store;
  const measure = el("select", {"aria-label": "Measure", onchange: draw},
    ...MEASURES.map(([value, text]) => el("option", {value}, text)));
  const compared = el("select", {"aria-label": "Compare with", onchange: read});
  const turns = makeTurnPicker(store);
  const note = el("span", {class: "quiet", role: "status"});
  const about = el("span", {class: "quiet"}, ABOUT_BARS);
  const list = el("ul", {class: "flame-rows", "aria-label": "Agents"});
  const node = el("section", {class: "talk flame", "aria-label": "Agents"},
    el("div", {class: "flame-tools"}, turns.node, measure, compared, note, about),
    el("div", {class: "talk-scroller", tabindex: 0}, list));
  /** @type {(Flame | null)[]} */
  let flames = [];

  const readSoon = paced(read);

  /** Return the arguments of the calls that the view needs; none for a thread that cannot be read. */
  function wanted() {
    const {threadId, thread, turn} = state;
    if (!threadId || !thread || thread.status === "new" || thread.changed !== null) return [];
    const isEarlier = turn !== null && turn >= 0 && turn < (thread.turns.at(-1)?.number ?? 0);
    const others = compared.value ? [{thread_id: compared.value}] : [];
    return [{thread_id: threadId, ...(isEarlier ? {turn} : {})}, ...others];
  }

  async function read() {
    if (state.view !== "agents") return;
    const now = wanted();
    const isStill = () => JSON.stringify(wanted()) === JSON.stringify(now);
    try {
      const found = await Promise.all(now.map((each) => backend.call("flame", each)));
      if (isStill()) show(found);
    } catch (error) {
      if (isStill()) store.set({error});
    }
  }

  /** @param {Flame[]} found */
  function show(found) {
    flames = found;
    draw();
  }

  function draw() {
    const [own, other] = flames;
    const by = /** @type {Measure} */ (measure.value);
    const nothing = state.thread?.changed ? "The tree has changed" : "Nothing has run yet.";
    turns.show(state.thread?.turns.at(-1)?.number ?? 0);
    note.textContent = !own ? nothing : turns.node.hidden ? `Turn ${own.turn + 1}` : "";
    about.hidden = !own?.frames.length;
    const rows = flameRows(own?.frames ?? [], by, other?.frames);
    list.replaceChildren(...rows.map((row) => rowNode(row, () => open(row.frame.path, own?.turn))));
  }

  /** Open the last activation of an agent in a turn.
   *
   * @param {string} path
   * @param {number} [turn]
   */
  function open(path, turn) {
    const bars = [...state.bars.values()].filter((bar) => (
      bar.kind === "agent" && bar.turn === turn && bar.state !== "void" && pathOf(bar.address) === path
    ));
    const last = bars.reduce((a, b) => (a.began > b.began ? a : b), bars[0]);
    if (!last) return;
    store.select(last.id);
    node.dispatchEvent(new CustomEvent("showtab", {bubbles: true, detail: "detail"}));
  }

  function putThreads() {
    const ids = (state.threads?.threads ?? []).map((each) => each.thread_id);
    const several = ids.filter((each) => each !== state.threadId);
    const chosen = several.includes(compared.value) ? compared.value : "";
    compared.replaceChildren(el("option", {value: ""}, "Compare with …"),
      ...several.map((value) => el("option", {value}, value)));
    compared.value = chosen;
  }

  return {
    node,
    /**
     * @param {State} _
     * @param {Changed} changed
     */
    update(_, changed) {
      if (changed.has("threads") || changed.has("threadId")) putThreads();
      if (changed.has("threadId")) show([]);
      if (["view", "threadId", "turn"].some((key) => changed.has(key))) read();
      else if (changed.has("thread") || changed.has("bars")) readSoon();
    },
  };
}

/**
 * @param {Row} row
 * @param {() => void} open
 */
function rowNode({frame, left, width, own, total, other}, open) {
  const times = frame.times > 1 ? ` ×${frame.times}` : "";
  const bar = el("span", {class: "flame-bar"}, el("span", {class: "flame-own"}));
  bar.style.marginLeft = `${left * 100}%`;
  bar.style.width = `${width * 100}%`;
  /** @type {HTMLElement} */ (bar.firstChild).style.width = `${width ? (own / width) * 100 : 0}%`;
  const name = actionButton(frame.agent_name + times, open, {class: "flame-name", title: frame.path});
  name.style.paddingLeft = `${frame.depth * 0.8}rem`;
  return el("li", {}, name, el("span", {class: "flame-track"}, bar),
    el("span", {class: "flame-amount"}, total), el("span", {class: "flame-amount quiet"}, other));
}
