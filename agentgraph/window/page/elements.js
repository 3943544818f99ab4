// Elements, numbers and texts for all panels. Texts are never read as markup.

/** @import {Attributes, Child} from "./page.d.ts" */

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: "class", "hidden", ... are attributes; names such as "onclick" are listeners.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {Child[]} children
 */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (["value", "checked", "textContent"].includes(name)) Object.assign(node, {[name]: value});
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((each) => each !== null && each !== undefined));
  return node;
}

/** Make a small button in the head of a panel; its label is its tip and its name for screen readers.
 *
 * @param {string} name
 * @param {string} label
 * @param {string} text
 * @param {(event: MouseEvent) => unknown} onclick
 */
export function toolButton(name, label, text, onclick) {
  const labels = {"aria-label": label, title: label};
  return el("button", {type: "button", class: `tool ${name}`, onclick, ...labels}, text);
}

/** Set a text if it differs, because an unchanged document is not redrawn.
 *
 * @param {Element} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const RUN = Math.random().toString(36).slice(2, 8); // a document may have several copies of this module
let idCount = 0;

/** Return an id that no other element of the document has.
 *
 * @param {string} word
 */
export function newId(word) {
  return `agentgraph-${RUN}-${word}-${++idCount}`;
}

// icons: paths in a square of 16

/** @type {Record<string, string>} */
const ICON_PATHS = {
  sequential: "M2 8h11M9 4l4 4-4 4",
  loop: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3.2H9.8",
  parallel: "M2 8h3M5 3v10M5 3h8M5 8h8M5 13h8",
  workflow: "M2 3h4v3H2zM10 3h4v3h-4zM10 11h4v3h-4zM6 4.5h4M4 6v6.5h6",
  each: "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z",
  switch: "M8 1.5l6.5 6.5L8 14.5 1.5 8z",
  swarm: "M8 2a1.8 1.8 0 1 0 .01 0M3 10.5a1.8 1.8 0 1 0 .01 0M13 10.5a1.8 1.8 0 1 0 .01 0"
    + "M7 5.5l-2.5 5M9 5.5l2.5 5M5 12.5h6",
  chat: "M2 3h12v8H7l-3 3v-3H2z",
  function: "M11 2.5c-2.5-.8-3.200 1-3.5 3L6 13c-.3 1.200-1.200 1.5-2.5 1M5 6.5h5.5",
  human: "M8 2a2.7 2.7 0 1 0 .01 0M2.5 14c.5-4 3-5 5.5-5s5 1 5.5 5z",
  graph: "M2.5 2.5h11v11h-11zM5 5h6v6H5z",
  node: "M8 4.5a3.5 3.5 0 1 0 .01 0",
  model: "M8 1.5L9.6 6.400 14.5 8 9.6 9.6 8 14.5 6.400 9.6 1.5 8 6.400 6.400z",
  tool: "M10 2a3.6 3.6 0 0 0-3.3 5L2 11.7 4.3 14 9 9.3A3.6 3.6 0 0 0 13.7 5"
    + "L11.5 6.8 9.7 6.3 9.2 4.5 11 2.3z",
  hook: "M10 3a2 2 0 1 0-4 0M8 5v6a2.5 2.5 0 0 1-5 0V9.5",
  question: "M5.5 6a2.5 2.5 0 1 1 3.7 2.200C8.300 8.7 8 9.200 8 10.200M8 13v.6",
};
const FILLED = new Set(["model", "node"]);

/** Return the icon of a kind of agent, or of a part of an activation.
 *
 * @param {string} kind
 */
export function icon(kind) {
  const drawing = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  drawing.setAttribute("viewBox", "0 0 16 16");
  drawing.setAttribute("class", "icon");
  drawing.setAttribute("aria-hidden", "true");
  drawing.dataset.kind = kind;
  path.setAttribute("d", ICON_PATHS[kind] ?? ICON_PATHS.node);
  if (FILLED.has(kind)) drawing.classList.add("filled");
  drawing.append(path);
  return drawing;
}

// numbers

/** Format seconds: 120 ms, 3.4 s, 2:05 min, 3.2 h.
 *
 * @param {number | null | undefined} seconds
 */
export function durationText(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  if (seconds < 0.9995) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) {
    const whole = Math.round(seconds);
    return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")} min`;
  }
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} d`;
}

/** Format a count: 950, 1.2k, 3.4M.
 *
 * @param {number} count
 */
export function countText(count) {
  if (count < 1000) return String(count);
  return count < 1e6 ? `${trimZero(count / 1000)}k` : `${trimZero(count / 1e6)}M`;
}

/** @param {number} number */
function trimZero(number) {
  return number < 99.95 ? number.toFixed(1).replace(/\.0$/, "") : String(Math.round(number));
}

/** Format a time: today the clock time, otherwise the day too.
 *
 * @param {number | null | undefined} seconds
 */
export function timeText(seconds) {
  if (!seconds) return "";
  const time = new Date(seconds * 1000);
  const isToday = time.toDateString() === new Date().toDateString();
  const clock = time.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", second: "2-digit"});
  return isToday ? clock : `${time.toLocaleDateString([], {month: "short", day: "numeric"})} ${clock}`;
}

// texts

const DIRECTIONS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Return the start of a text, on one line, without marks that change the text direction.
 *
 * @param {unknown} text
 */
export function shortText(text, most = 200) {
  const start = String(text ?? "").slice(0, most + 1);
  const line = start.replace(DIRECTIONS, "").replace(/[\s\u2028\u2029]+/g, " ").trim();
  return start.length > most ? `${line.slice(0, most)}…` : line;
}

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** Return the shown id of a thread or a step; a random id is cut to its start.
 *
 * @param {string} id
 */
export function shortId(id) {
  return UUID.test(id) ? `${id.slice(0, 8)}…` : shortText(id, 100);
}

/** Make an element with a text that shows its start and a button for the rest.
 *
 * @param {unknown} text
 * @param {{most?: number, tag?: keyof HTMLElementTagNameMap}} [options]
 */
export function longText(text, {most = 4000, tag = "div"} = {}) {
  const whole = String(text ?? "");
  const node = el(tag, {class: "long", dir: "auto"});
  if (whole.length <= most) {
    node.textContent = whole;
    return node;
  }
  const isHuge = whole.length >= 1e6;
  const size = isHuge ? `${trimZero(whole.length / 1e6)} million` : countText(whole.length);
  const showAll = el("button", {type: "button", class: "show-all"}, `Show all ${size} characters`);
  showAll.addEventListener("click", () => node.replaceChildren(whole));
  node.append(`${whole.slice(0, most)}… `, showAll);
  return node;
}

/** Return whether pressed keys belong to a field.
 *
 * @param {Event} event
 */
export function isTyping(event) {
  const node = /** @type {HTMLElement} */ (event.composedPath?.()[0] ?? event.target);
  return node.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(node.tagName);
}

/** Return the focused element of the document or shadow tree that contains an element.
 *
 * @param {Element} node
 */
export function focusIn(node) {
  return /** @type {Document | ShadowRoot} */ (node.getRootNode()).activeElement;
}

/** Return a function that requests one call at the next frame, however often it is called.
 *
 * @param {() => unknown} call
 */
export function atNextFrame(call) {
  let frame = 0;
  return () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      call();
    });
  };
}

const REST = 6; // pause between calls, as a multiple of a call's duration

/** Return a function that requests one call soon, one at a time; an expensive call is made less often.
 *
 * @param {() => unknown} call
 */
export function paced(call) {
  let timer = 0; // until the call has ended
  let next = 0;
  let isDue = false;

  function request() {
    isDue = true;
    timer ||= setTimeout(run, Math.max(0, next - performance.now()));
  }

  async function run() {
    isDue = false;
    const began = performance.now();
    try {
      await call();
    } finally {
      const ended = performance.now();
      next = ended + (ended - began) * REST;
      timer = 0;
      if (isDue) request();
    }
  }

  return request;
}

/** The settings of this browser; without storage they last only as long as the page. */
export const settings = {
  /**
   * @template T
   * @param {string} name
   * @param {T} otherwise
   * @returns {T}
   */
  get(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(`agentgraph.${name}`) ?? "null") ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  /**
   * @param {string} name
   * @param {unknown} value
   */
  set(name, value) {
    try {
      localStorage.setItem(`agentgraph.${name}`, JSON.stringify(value));
    } catch {
      // a private window may have no storage
    }
  },
};
