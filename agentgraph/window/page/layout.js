// Resizable parts of the window, and tabs.

import {el, newId, setText, settings} from "./elements.js";
import {valueOf} from "./maps.js";

const STEP = 24; // pixels that an arrow key moves a separator
/** @type {Record<string, [least: number, most: number]>} */
const BOUNDS = {left: [180, 480], right: [280, 800], tree: [80, 2000]};

/** @type {Record<string, number | undefined>} */
const WAYS = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1};

/** Make the separator of two parts, which is dragged or moved by arrow keys.
 *
 * @param {HTMLElement} root
 * @param {string} name
 * @param {{isRow?: boolean, sign?: number, measure: () => number}} options
 */
export function makeBorder(root, name, {isRow = false, sign = 1, measure}) {
  const [least, most] = BOUNDS[name];
  const node = el("div", {
    class: `border ${isRow ? "row" : "column"}`, role: "separator", tabindex: 0,
    "aria-orientation": isRow ? "horizontal" : "vertical", "aria-label": `Size of ${name}`,
    "aria-valuemin": least, "aria-valuemax": most,
  });
  /** @type {{at: number, size: number} | null} */
  let start = null;
  new ResizeObserver(() => node.setAttribute("aria-valuenow", String(measure()))).observe(node);

  /** @param {number} size */
  function set(size) {
    const wanted = Math.round(Math.min(Math.max(size, least), most));
    root.style.setProperty(`--${name}`, `${wanted}px`);
    node.setAttribute("aria-valuenow", String(wanted));
    settings.set(`size.${name}`, wanted);
  }

  const saved = settings.get(`size.${name}`, NaN);
  if (Number.isFinite(saved)) set(saved);
  node.addEventListener("pointerdown", (event) => {
    start = {at: isRow ? event.clientY : event.clientX, size: measure()};
    node.setPointerCapture(event.pointerId);
  });
  node.addEventListener("pointermove", (event) => {
    if (start) set(start.size + sign * ((isRow ? event.clientY : event.clientX) - start.at));
  });
  const end = () => {
    start = null;
  };
  node.addEventListener("pointerup", end);
  node.addEventListener("pointercancel", end);
  node.addEventListener("keydown", (event) => {
    const way = WAYS[event.key];
    if (!way) return;
    event.preventDefault();
    set(measure() + sign * way * STEP);
  });
  return node;
}

/** Make tabs: {node, show(name), badge(name, text), shown}; `entries` are [name, label, panel].
 *
 * @param {string} label
 * @param {[name: string, label: string, panel: Node][]} entries
 * @param {(name: string) => unknown} [shows] called with the name of a tab when it is shown
 */
export function makeTabs(label, entries, shows = () => {}) {
  const bar = el("div", {class: "tabs", role: "tablist", "aria-label": label});
  const body = el("div", {class: "tab-bodies"});
  /** @type {Map<string, {tab: HTMLElement, badge: HTMLElement, place: HTMLElement}>} */
  const tabs = new Map();
  let shown = entries[0][0];

  for (const [name, text, panel] of entries) {
    const badge = el("span", {class: "badge", hidden: true});
    const [id, placeId] = [newId("tab"), newId("panel")];
    const control = {type: "button", role: "tab", id, "aria-controls": placeId, class: "tab"};
    const tab = el("button", control, text, badge);
    const place = el("div", {
      role: "tabpanel", class: `tab-body tab-${name}`, id: placeId, tabindex: -1, "aria-labelledby": id,
    }, panel);
    tab.dataset.tab = name;
    tab.addEventListener("click", () => show(name));
    tabs.set(name, {tab, badge, place});
    bar.append(tab);
    body.append(place);
  }
  bar.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const way = event.key === "ArrowLeft" ? -1 : 1;
    event.preventDefault();
    event.stopPropagation();
    const names = [...tabs.keys()];
    const next = names[(names.indexOf(shown) + way + names.length) % names.length];
    show(next);
    valueOf(tabs, next).tab.focus();
  });

  /** @param {string} wanted */
  function show(wanted) {
    shown = wanted;
    for (const [name, {tab, place}] of tabs) {
      tab.setAttribute("aria-selected", String(name === wanted));
      tab.tabIndex = name === wanted ? 0 : -1;
      place.hidden = name !== wanted;
    }
    shows(wanted);
  }

  show(shown);
  return {
    node: el("div", {class: "tabbed"}, bar, body),
    show,
    /**
     * @param {string} name
     * @param {string} text
     */
    badge(name, text) {
      const {badge} = valueOf(tabs, name);
      badge.hidden = !text;
      setText(badge, text);
    },
    /** @param {string} name */
    focus: (name) => valueOf(tabs, name).place.focus(),
    /** @param {string} name */
    place: (name) => valueOf(tabs, name).place,
    get shown() {
      return shown;
    },
  };
}
