// The timeline: a bar for each activation, with model and tool calls inside.
//
// A canvas of the size of the panel shows the bars. A hidden list has the bars around the selected one,
// for keyboards and screen readers.

import {placesOf} from "./activations.js";
import {atNextFrame, countText, durationText, el} from "./elements.js";
import {newId, paced, setText, toolButton} from "./elements.js";
import {isLap, labelOf, optionText} from "./labels.js";
import {makePainter} from "./painter.js";
import {makePointing} from "./pointing.js";
import {isMostlyWaits} from "./rows.js";
import {ROW, RULER, makeView} from "./view.js";

/** @import {PointerActs} from "./pointing.js" */
/** @import {Changed, Item, Places, State, Store, View} from "./page.d.ts" */

const LIST_AROUND = 8; // number of bars in the list before and after the selected one
const ZOOM = 1.5;
const GROWS = 100; // milliseconds between redraws of running bars
const GROWS_CALMLY = 1000; // the same, if the browser requests reduced motion
const ABOUT = "Timeline: move through the bars with the arrow keys";

/** @param {Store} store */
export function makeTimeline(store) {
  const {state} = store;
  const canvas = el("canvas", {class: "timeline-canvas", "aria-hidden": "true"});
  const high = el("div", {class: "timeline-high"});
  const list = makeBarList();
  const attributes = {class: "timeline-scroller", tabindex: 0, role: "listbox", "aria-label": ABOUT};
  const scroller = el("div", attributes, high, list.node);
  const view = makeView(() => Math.max(scroller.clientWidth, 50));
  const painter = makePainter(canvas);
  /** @type {PointerActs} */
  const acts = {
    itemAt: (x, y) => view.itemAt(x, y, scroller.scrollTop),
    select: (item) => store.select(item.bar.id),
    pan: (pixels) => change(() => view.pan(pixels)),
    zoom: (factor, x) => change(() => view.zoom(factor, x)),
    draw: () => draw(),
  };
  const pointing = makePointing(scroller, canvas, acts);
  const follow = toolButton("timeline-follow", "Follow running bars (f)", "Follow", () => {
    setMode(view.mode === "follow" ? "free" : "follow");
  });
  const short = toolButton("timeline-short", "Hide waits (w)", "Hide waits", () => {
    isShortChosen = true;
    setShort(!view.isShort);
  });
  const loadOlder = () => store.loadOlder();
  const older = toolButton("timeline-older", "Load older bars", "Load older", loadOlder);
  const facts = el("span", {class: "timeline-facts quiet"});
  const head = el("div", {class: "panel-head"},
    el("h2", {}, "Timeline"), facts, el("span", {class: "spacer"}), older, short, follow,
    toolButton("timeline-out", "Zoom out (−)", "−", () => acts.zoom(1 / ZOOM)),
    toolButton("timeline-in", "Zoom in (+)", "+", () => acts.zoom(ZOOM)),
    toolButton("timeline-fit", "Fit all bars (0)", "Fit", () => setMode("fit")),
  );
  const plot = el("div", {class: "timeline-plot"}, canvas, scroller, pointing.tip);
  const empty = el("p", {class: "empty quiet"}, "Nothing has run yet.");
  const node = el("section", {class: "timeline panel", "aria-label": "Timeline"}, head, empty, plot);
  /** @type {Map<string | null, Item>} */
  let byId = new Map();
  /** @type {Places} */
  let places = new Map();
  let growing = 0;
  let isShortChosen = false; // whether a person has chosen to hide waits, for the open thread

  /** @param {boolean} isShort */
  const setShort = (isShort) => {
    change(() => view.setShort(isShort));
    showFacts();
  };
  /** @param {View["mode"]} mode */
  const setMode = (mode) => change(() => {
    view.mode = mode;
  });

  /** @param {() => void} act */
  function change(act) {
    act();
    follow.setAttribute("aria-pressed", String(view.mode === "follow"));
    short.setAttribute("aria-pressed", String(view.isShort));
    draw();
  }

  function showFacts() {
    const text = view.layout.items.length ? timelineFacts(view) : "";
    setText(facts, text);
    facts.title = text;
  }

  function layBarsOut() {
    const bars = [...state.bars.values()];
    for (const bar of bars) bar.place_kind = places.get(bar.place ?? "")?.node.kind;
    view.setBars(bars);
    const isChosen = isShortChosen || view.isShort;
    if (!isChosen && isMostlyWaits(view.layout, Date.now() / 1000)) setShort(true);
    const {items, rows} = view.layout;
    for (const item of items) item.label = labelOf(item.bar);
    byId = new Map(items.map((item) => [item.bar.id, item]));
    empty.hidden = bars.length > 0;
    const isLoading = state.threadId && (!state.thread || state.thread.turns?.length);
    setText(empty, isLoading ? "Loading …" : "Nothing has run yet.");
    plot.hidden = !bars.length;
    high.style.height = `${RULER + rows.length * ROW + 8}px`;
    older.hidden = state.isWhole;
    showFacts();
    Object.assign(scroller.dataset, {bars: bars.length, rows: rows.length});
    showList();
    draw();
  }

  const layOutSoon = paced(layBarsOut);

  const draw = atNextFrame(() => {
    if (plot.hidden || !plot.clientWidth) return;
    view.settle();
    if (view.layout.isOpen) showFacts();
    const drawn = painter.paint(view, {
      width: Math.max(scroller.clientWidth, 50), top: scroller.scrollTop, selected: state.selected,
      hovered: pointing.hovered,
    });
    Object.assign(scroller.dataset, {drawn, scale: view.scale, left: view.left});
    if (view.layout.isOpen && document.visibilityState !== "hidden") drawAgain();
  });

  function drawAgain() {
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    growing ||= setTimeout(() => {
      growing = 0;
      draw();
    }, isCalm ? GROWS_CALMLY : GROWS);
  }

  scroller.addEventListener("scroll", draw);
  new ResizeObserver(draw).observe(plot);

  // keyboards and screen readers

  /** @type {Record<string, () => void>} */
  const bindings = {
    ArrowRight: () => move(1),
    ArrowLeft: () => move(-1),
    ArrowDown: () => moveRow(1),
    ArrowUp: () => moveRow(-1),
    Home: () => choose(view.layout.items[0]),
    End: () => choose(view.layout.items.at(-1)),
    Enter: () => node.dispatchEvent(new CustomEvent("openbar", {bubbles: true})),
    "+": () => acts.zoom(ZOOM),
    "=": () => acts.zoom(ZOOM),
    "-": () => acts.zoom(1 / ZOOM),
    0: () => setMode("fit"),
    f: () => follow.click(),
    w: () => short.click(),
  };
  scroller.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in bindings)) return;
    event.preventDefault();
    event.stopPropagation();
    bindings[event.key]();
  });

  /** @param {Item | null | undefined} item */
  function choose(item) {
    if (!item) return;
    store.select(item.bar.id);
    const y = item.row * ROW;
    const room = scroller.clientHeight - RULER - ROW - 8;
    if (y < scroller.scrollTop) scroller.scrollTop = y;
    else if (y > scroller.scrollTop + room) scroller.scrollTop = y - room;
    change(() => view.show(item));
  }

  /** @param {1 | -1} by */
  function move(by) {
    const {items} = view.layout;
    const item = byId.get(state.selected);
    if (item) choose(items[items.indexOf(item) + by]);
    else choose(items.at(by > 0 ? 0 : -1));
  }

  /** Go to the row below or above, to the nearest item in time.
   *
   * @param {1 | -1} by
   */
  function moveRow(by) {
    const item = byId.get(state.selected);
    if (!item) return move(by);
    const row = view.layout.rows[item.row + by] ?? [];
    /** @param {Item} each */
    const away = (each) => Math.max(each.began - item.began, item.began - each.ended, 0);
    return choose(row.reduce(
      (best, each) => (best && away(best) <= away(each) ? best : each),
      /** @type {Item | null} */ (null),
    ));
  }

  function showList() {
    const id = list.show(view.layout.items, byId.get(state.selected));
    if (id) scroller.setAttribute("aria-activedescendant", id);
    else scroller.removeAttribute("aria-activedescendant");
  }

  return {
    node,
    /** Select the activation "next" to the selected one, "before" it, the "first", or the "last". */
    /** @param {"next" | "before" | "first" | "last"} where */
    go(where) {
      const agents = view.layout.items.filter((item) => item.kind === "agent");
      const selected = byId.get(state.selected);
      const at = agents.findLastIndex(
        (item) => selected && (item === selected || item.began < selected.began),
      );
      const before = agents[at] === selected ? at - 1 : at;
      const last = agents.length - 1;
      const next = {next: at + 1, before: selected ? before : last, first: 0, last}[where];
      choose(agents[Math.min(Math.max(next, 0), last)]);
    },
    focus: () => scroller.focus(),
    repaint() {
      painter.forget();
      draw();
    },
    /**
     * @param {State} _
     * @param {Changed} changed
     */
    update(_, changed) {
      if (changed.has("about") && state.about) places = placesOf(state.about.tree);
      if (changed.has("threadId")) {
        isShortChosen = false;
        if (view.isShort) setShort(false);
        setMode("fit");
        scroller.scrollTop = 0;
        layBarsOut();
      }
      const isFirst = changed.has("thread") && !view.layout.items.length;
      if (isFirst || ["bars", "isWhole", "about"].some((key) => changed.has(key))) layOutSoon();
      if (!changed.has("selected")) return;
      showList();
      draw();
    },
  };
}

/** @param {View} view */
function timelineFacts({layout, waits}) {
  const {items, begin, end, isOpen} = layout;
  const count = items.filter((item) => item.kind === "agent" && !isLap(item.bar)).length;
  const until = isOpen ? Math.max(end, Date.now() / 1000) : end;
  const hidden = waits.reduce((sum, {from, to}) => sum + Math.min(to, until) - Math.min(from, until), 0);
  const waited = hidden ? ` + ${durationText(hidden)} waits` : "";
  return `${countText(count)} activations, ${durationText(until - begin - hidden)}${waited}`;
}

/** The bars around the selected one, as texts: {node, show(items, selected)}. */
function makeBarList() {
  const node = el("ul", {class: "sr", role: "presentation"});

  /** Show the bars; return the element id of the selected one, if there is one.
   *
   * @param {Item[]} items
   * @param {Item | undefined} selected
   */
  function show(items, selected) {
    const at = selected ? items.indexOf(selected) : 0;
    const first = Math.max(0, at - LIST_AROUND);
    let id = null;
    node.replaceChildren(...items.slice(first, at + LIST_AROUND + 1).map((item, number) => {
      const option = el("li", {
        role: "option", id: newId("bar"), "aria-selected": String(item === selected),
        "aria-posinset": first + number + 1, "aria-setsize": items.length,
      }, optionText(item.bar));
      if (item === selected) id = option.id;
      return option;
    }));
    return id;
  }

  return {node, show};
}
