// The tree with the states of a thread's bars: the chosen turns and iterations, open boxes and the zoom.

import {grownStatuses, placesOf, placeStatuses} from "./activations.js";
import {atNextFrame, el, paced, toolButton} from "./elements.js";
import {questionText} from "./forms.js";
import {makeLegend} from "./legend.js";
import {valueOf} from "./maps.js";
import {makePicture} from "./picture.js";
import {makeTurnPicker} from "./turn_picker.js";

/** @import {Changed, Places, PlaceStatuses, State, Store, TreeActs} from "./page.d.ts" */
/** @import {TreeNode} from "./shapes.d.ts" */

const OPEN_AT_FIRST = 60; // maximum number of places in a tree that is fully open at first
const OPEN_AT_ONCE = 150; // maximum number of places in a tree that is expanded at once
const SMALLEST = 0.4;
const SMALLEST_FIT = 0.8;
const LARGEST = 2;
const ZOOM_STEP = 1.2;
const ELAPSED = 1000; // milliseconds between updates of running times

/** @param {Store} store */
export function makeTree(store) {
  const {state} = store;
  /** @type {Places} */
  let places = new Map();
  /** @type {TreeNode | null} */
  let built = null; // the tree of the present boxes
  let zoom = 1;
  let isFitting = true;
  /** @type {Map<string, boolean>} */
  const open = new Map(); // boxes that a person opened or closed, by place id
  let depthOpen = Infinity;
  let elapsing = 0; // timer while something is running
  /** @type {Set<string>} */
  let unchosen = new Set(); // places that a switch has not chosen; their boxes are closed

  const turns = makeTurnPicker(store, {hasAll: true});
  /** @type {TreeActs} */
  const acts = {
    placeOf: (id) => valueOf(places, id),
    isOpen: (id) => open.get(id) ?? (acts.placeOf(id).depth < depthOpen && !unchosen.has(id)),
    setOpen: (id, isOpen) => open.set(id, isOpen),
    toggled: () => fitSoon(),
    select(bar) {
      store.select(bar.id);
      node.dispatchEvent(new CustomEvent("showdetails", {bubbles: true}));
    },
    pick(id, count) {
      const picks = new Map(state.picks);
      if (count === null) picks.delete(id);
      else picks.set(id, count);
      store.set({picks});
    },
  };
  const picture = makePicture(acts);
  const legend = makeLegend();
  const scroller = el("div", {class: "tree-scroller", tabindex: -1}, picture.node);
  const switchLegend = () => showLegend(Boolean(legend.node.hidden));
  const legendButton = toolButton("tree-legend", "Legend", "Legend", switchLegend);
  const tools = el("div", {class: "panel-head"},
    el("h2", {}, "Tree"), turns.node, el("span", {class: "spacer"}),
    toolButton("tree-close-all", "Collapse all boxes", "Collapse", () => openAll(1)),
    toolButton("tree-open-all", "Expand boxes", "Expand", () => openAll(nextDepth())),
    legendButton,
    toolButton("tree-smaller", "Zoom tree out", "−", () => setZoom(zoom / ZOOM_STEP)),
    toolButton("tree-larger", "Zoom tree in", "+", () => setZoom(zoom * ZOOM_STEP)),
    toolButton("tree-fit", "Fit tree", "Fit", () => fit()),
  );
  const node = el("section", {class: "tree panel", "aria-label": "Tree"}, tools,
    el("div", {class: "tree-body"}, scroller, legend.node));
  scroller.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    setZoom(event.deltaY < 0 ? zoom * 1.1 : zoom / 1.1);
  }, {passive: false});
  const fitSoon = atNextFrame(() => isFitting && fit());
  new ResizeObserver(fitSoon).observe(scroller);

  /** @param {boolean} isShown */
  function showLegend(isShown) {
    legend.node.hidden = !isShown;
    legendButton.setAttribute("aria-pressed", String(isShown));
  }

  /** @param {number} wanted */
  function setZoom(wanted) {
    isFitting = false;
    zoom = Math.min(Math.max(wanted, SMALLEST), LARGEST);
    picture.node.style.zoom = String(zoom);
  }

  function fit() {
    picture.node.style.zoom = "1";
    const {clientWidth, clientHeight} = scroller;
    if (!clientWidth || !clientHeight) return;
    const {scrollWidth, scrollHeight} = scroller;
    const wanted = Math.min(1, clientWidth / scrollWidth, clientHeight / scrollHeight);
    setZoom(Math.max(wanted, SMALLEST_FIT));
    isFitting = true;
  }

  /** Return the depth to expand to: all of a small tree, one more level of a large one. */
  function nextDepth() {
    return places.size <= OPEN_AT_ONCE ? Infinity : depthOpen + 1;
  }

  /** @param {number} depth */
  function openAll(depth) {
    open.clear();
    depthOpen = depth;
    build();
    show();
  }

  function build() {
    const tree = state.about?.tree;
    if (!tree) return;
    places = placesOf(tree);
    built = tree;
    picture.build(acts.placeOf(tree.id));
    legend.show(new Set([...places.values()].map((place) => place.node.kind)));
    fitSoon();
  }

  function firstDepth() {
    /** @param {number} depth */
    const countTo = (depth) => [...places.values()].filter((place) => place.depth <= depth).length;
    return [8, 7, 6, 5, 4, 3, 2].find((depth) => countTo(depth) <= OPEN_AT_FIRST) ?? 1;
  }

  const show = paced(() => {
    if (!state.about) return;
    if (built !== state.about.tree) {
      places = placesOf(state.about.tree);
      depthOpen = places.size > OPEN_AT_FIRST ? firstDepth() : Infinity;
      build();
    }
    const bars = [...state.bars.values()].sort((a, b) => a.began - b.began);
    const last = bars.reduce((most, bar) => Math.max(most, bar.turn), 0);
    turns.show(last);
    const turn = state.turn === -1 ? null : Math.min(state.turn ?? last, last);
    const found = placeStatuses(places, bars, {turn, picks: state.picks, pauses: state.pauses});
    closeUnchosen(found);
    const selectedPlace = placeIn(turn);
    const {saying, picks} = state;
    const pending = state.line === null ? (state.thread?.pending ?? []) : [];
    const questions = new Map(pending.map((each) => [each.address, questionText(each.value)]));
    const look = {selectedPlace, saying, picks, questions};
    const began = Date.now();
    const showPicture = () => picture.show(grownStatuses(found, (Date.now() - began) / 1000), look);
    picture.show(found, look);
    clearInterval(elapsing);
    const isGrowing = [...found.values()].some(({growing}) => growing.seconds || growing.waited);
    if (isGrowing && state.isConnected) elapsing = setInterval(showElapsed, ELAPSED, showPicture);
  });

  /** Return the place of the selected bar if the bar is of a turn; null accepts any turn.
   *
   * @param {number | null} turn
   */
  function placeIn(turn) {
    const selected = state.bars.get(state.selected ?? "");
    return turn === null || selected?.turn === turn ? selected?.place : undefined;
  }

  /** @param {() => void} showPicture */
  function showElapsed(showPicture) {
    if (!node.isConnected) clearInterval(elapsing);
    else if (document.visibilityState !== "hidden") showPicture();
  }

  /** @param {PlaceStatuses} found */
  function closeUnchosen(found) {
    const now = new Set();
    for (const {node: place} of places.values()) {
      const idle = place.children.filter((each) => found.get(each.id)?.state === "idle");
      const hasChosen = place.kind === "switch" && idle.length < place.children.length;
      if (hasChosen) for (const each of idle) now.add(each.id);
    }
    if (now.size === unchosen.size && [...now].every((id) => unchosen.has(id))) return;
    unchosen = now;
    picture.reopen();
    fitSoon();
  }

  /** Show the box of a place: open the boxes around it, and select its button.
   *
   * @param {string} id
   */
  function reveal(id) {
    for (let {parent} = acts.placeOf(id); parent; {parent} = parent) open.set(parent.node.id, true);
    picture.reopen();
    /** @type {HTMLElement | null} */
    const box = picture.node.querySelector(`.box[data-place="${CSS.escape(id)}"] > .box-head .box-open`);
    box?.scrollIntoView({block: "nearest", inline: "nearest"});
    box?.focus({focusVisible: true});
  }

  const KEYS = ["about", "thread", "bars", "turn", "picks", "selected", "texts"];
  return {
    node,
    reveal,
    /** Close the legend; return whether it was open. */
    closeLegend() {
      const wasOpen = !legend.node.hidden;
      showLegend(false);
      return wasOpen;
    },
    /**
     * @param {State} _
     * @param {Changed} changed
     */
    update(_, changed) {
      if (KEYS.some((key) => changed.has(key))) show();
      if (changed.has("threadId")) scroller.scrollTo(0, 0);
    },
  };
}
