// The items of an `each`: a grid, by key; a canvas where there are many.

import {atNextFrame, countText, el, newId, setText, shortText} from "./elements.js";
import {valueOf} from "./maps.js";
import {STATES, STATUS_MARKS, stateText} from "./states.js";

/** @import {Bar, Count, ShownState, PlaceStatus} from "./page.d.ts" */

const MOST_CHIPS = 40;
const CELL = 12; // pixels, with the gap
/** @type {ShownState[]} */

/** Make the grid: {node, show(status, picked)}; `pick(count)` is called with an item, or null.
 *
 * @param {(count: string | null) => void} pick
 */
export function makeItems(pick) {
  const counts = el("div", {class: "items-counts", role: "status"});
  const chips = el("div", {class: "items-chips"});
  const canvas = el("canvas", {class: "items-canvas", tabindex: 0, role: "img", hidden: true});
  const about = el("div", {class: "items-about quiet", id: newId("item")});
  canvas.setAttribute("aria-describedby", about.id);
  const node = el("div", {class: "items", hidden: true}, counts, chips, canvas, about);
  /** @type {[count: string, Count][]} */
  let entries = [];
  /** @type {string | null} */
  let picked = null;
  /** @type {number | null} */
  let looked = null; // the number of the item under the pointer
  let shown = "";

  const byState = () => {
    /** @type {Map<ShownState, number[]>} */
    const found = new Map();
    entries.forEach(([, each], number) => {
      found.set(each.state, [...(found.get(each.state) ?? []), number]);
    });
    return found;
  };

  /** @param {[count: string, Count]} entry */
  function itemText([count, each]) {
    const name = each.key === null ? `item ${Number(count) + 1}` : shortText(each.key, 60);
    return `${name}: ${stateText(each.state)}`;
  }

  function showCounts() {
    const found = byState();
    const total = el("span", {class: "quiet"}, `${countText(entries.length)} items`);
    const buttons = STATES.filter((state) => found.has(state)).map(
      (state) => countButton(state, valueOf(found, state)),
    );
    if (picked !== null) {
      const forget = {type: "button", class: "quiet-button", onclick: () => pick(null)};
      buttons.push(el("button", forget, "All items"));
    }
    counts.replaceChildren(total, ...buttons);
  }

  /**
   * @param {ShownState} state
   * @param {number[]} numbers
   */
  function countButton(state, numbers) {
    const word = stateText(state).toLowerCase();
    const mark = el("span", {class: "mark"}, STATUS_MARKS[state]);
    const attributes = {type: "button", class: "items-count", title: `Select next ${word} item`};
    const button = el("button", attributes, mark, ` ${countText(numbers.length)} ${word}`);
    mark.dataset.state = button.dataset.state = state;
    button.addEventListener("click", () => {
      const now = entries.findIndex(([count]) => count === picked);
      pick(entries[numbers.find((number) => number > now) ?? numbers[0]][0]);
    });
    return button;
  }

  function showChips() {
    chips.replaceChildren(...entries.map(([count, each]) => {
      const name = each.key === null ? String(Number(count) + 1) : shortText(each.key, 24);
      const attributes = {type: "button", class: "chip item", title: itemText([count, each])};
      const chip = el("button", attributes, el("bdi", {}, name));
      chip.dataset.state = each.state;
      chip.dataset.item = count;
      chip.setAttribute("aria-pressed", String(count === picked));
      chip.addEventListener("click", () => pick(count === picked ? null : count));
      return chip;
    }));
  }

  const columns = () => Math.max(1, Math.floor((canvas.clientWidth || 360) / CELL));

  const draw = atNextFrame(() => {
    if (canvas.hidden || !canvas.isConnected) return;
    const wide = columns();
    const lines = Math.ceil(entries.length / wide);
    const scale = devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = lines * CELL * scale;
    canvas.style.height = `${lines * CELL}px`;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.scale(scale, scale);
    const style = getComputedStyle(canvas);
    const ink = style.color;
    const colours = new Map(STATES.map((state) => [state, colourOf(canvas, state)]));
    entries.forEach(([count, each], number) => {
      const x = (number % wide) * CELL;
      const y = Math.floor(number / wide) * CELL;
      context.fillStyle = colours.get(each.state) ?? ink;
      context.globalAlpha = each.state === "done" ? 0.45 : 1;
      context.fillRect(x + 1, y + 1, CELL - 2, CELL - 2);
      context.globalAlpha = 1;
      if (count !== picked && number !== looked) return;
      context.strokeStyle = ink;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, CELL - 2, CELL - 2);
    });
  });

  /** @param {MouseEvent} event */
  function numberAt(event) {
    const number = Math.floor(event.offsetY / CELL) * columns() + Math.floor(event.offsetX / CELL);
    return number < entries.length && event.offsetX < columns() * CELL ? number : null;
  }

  /** @param {number | null} number */
  function look(number) {
    looked = number;
    const at = number ?? entries.findIndex(([count]) => count === picked);
    setText(about, entries[at] ? itemText(entries[at]) : "");
    draw();
  }

  canvas.addEventListener("pointermove", (event) => look(numberAt(event)));
  canvas.addEventListener("pointerleave", () => look(null));
  canvas.addEventListener("click", (event) => {
    const number = numberAt(event);
    if (number !== null) pick(entries[number][0]);
  });
  canvas.addEventListener("keydown", (event) => {
    /** @type {Record<string, number>} */
    const ways = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(), ArrowUp: -columns()};
    if (!(event.key in ways) || !entries.length) return;
    event.preventDefault();
    event.stopPropagation();
    const now = entries.findIndex(([count]) => count === picked);
    const next = Math.min(Math.max(now + ways[event.key], 0), entries.length - 1);
    pick(entries[next][0]);
  });
  new ResizeObserver(draw).observe(canvas);

  return {
    node,
    draw,
    /**
     * @param {PlaceStatus} status
     * @param {string | null} [nowPicked]
     */
    show(status, nowPicked = null) {
      entries = [...status.counts.entries()].sort(([a], [b]) => Number(a) - Number(b));
      const key = JSON.stringify([nowPicked, entries.map(([count, each]) => [count, each.state])]);
      if (key === shown) return;
      shown = key;
      picked = nowPicked;
      node.hidden = !entries.length;
      const isMany = entries.length > MOST_CHIPS;
      chips.hidden = isMany;
      canvas.hidden = !isMany;
      canvas.setAttribute("aria-label", `${entries.length} items`);
      showCounts();
      if (isMany) chips.replaceChildren();
      else showChips();
      look(null);
    },
  };
}

/** Return the colour of a state, from the style sheet.
 *
 * @param {Element} node
 * @param {string} name
 */
export function colourOf(node, name) {
  const probe = el("span", {class: "probe"});
  probe.style.color = `var(--${name})`;
  node.after(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
