// Parts of the window whose sizes people choose, and tabs.

import {el, newId, setText, settings} from "./elements.js";

const STEP = 24; // pixels that an arrow key moves a border
const BOUNDS = {left: [180, 480], right: [280, 800], tree: [80, 2000]};

/** Make the border between two parts: it is dragged, or moved by arrow keys. */
export function makeBorder(root, name, {isRow = false, sign = 1, measure}) {
  const node = el("div", {
    class: `border ${isRow ? "row" : "column"}`, role: "separator", tabindex: 0,
    "aria-orientation": isRow ? "horizontal" : "vertical", "aria-label": `Size of ${name}`,
  });
  const [least, most] = BOUNDS[name];
  let start = null;

  function set(size) {
    const wanted = Math.round(Math.min(Math.max(size, least), most));
    root.style.setProperty(`--${name}`, `${wanted}px`);
    node.setAttribute("aria-valuenow", wanted);
    settings.set(`size.${name}`, wanted);
  }

  const saved = settings.get(`size.${name}`, null);
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
    const way = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1}[event.key];
    if (!way) return;
    event.preventDefault();
    set(measure() + sign * way * STEP);
  });
  return node;
}

/** Make tabs: {node, show(name), badge(name, text), shown}; `entries` are [name, label, panel]. */
export function makeTabs(label, entries) {
  const bar = el("div", {class: "tabs", role: "tablist", "aria-label": label});
  const body = el("div", {class: "tab-bodies"});
  const tabs = new Map();
  let shown = null;

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
    const way = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!way) return;
    event.preventDefault();
    event.stopPropagation();
    const names = [...tabs.keys()];
    const next = names[(names.indexOf(shown) + way + names.length) % names.length];
    show(next);
    tabs.get(next).tab.focus();
  });

  function show(wanted) {
    shown = wanted;
    for (const [name, {tab, place}] of tabs) {
      tab.setAttribute("aria-selected", String(name === wanted));
      tab.tabIndex = name === wanted ? 0 : -1;
      place.hidden = name !== wanted;
    }
  }

  show(entries[0][0]);
  return {
    node: el("div", {class: "tabbed"}, bar, body),
    show,
    badge(name, text) {
      const {badge} = tabs.get(name);
      badge.hidden = !text;
      setText(badge, text);
    },
    focus: (name) => tabs.get(name).place.focus(),
    place: (name) => tabs.get(name).place,
    get shown() {
      return shown;
    },
  };
}
