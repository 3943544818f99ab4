// The picture of a tree: nested boxes, one for each place; running places are highlighted.

import {countText, durationText, el, icon, setText, shortText} from "./elements.js";
import {makeItems} from "./items.js";
import {makePicker} from "./laps.js";
import {valueOf} from "./maps.js";
import {afterLine, stagesOf} from "./stages.js";
import {STATUS_MARKS, stateText} from "./states.js";

/** @import {Bar, Place, PlaceStatus, PlaceStatuses, TreeActs, TreeLook} from "./page.d.ts" */
/** @import {TreeNode} from "./shapes.d.ts" */

/** @type {Record<string, string>} */
export const KIND_WORDS = {
  sequential: "one after the other", loop: "repeatedly", parallel: "at the same time",
  workflow: "steps", each: "for each item", switch: "one of them", swarm: "transfer to each other",
  chat: "a model", human: "a person", function: "code", graph: "a LangGraph graph",
  node: "node of a graph",
};

const SHOWN_WAIT = 1; // seconds for a person that are worth a fact
const LAST_WORDS = 120; // characters of an agent's last words

/** @typedef {{show: (found: PlaceStatuses, look: TreeLook) => void, reopen: () => void}} Shown */
/** @typedef {Shown & {node: HTMLElement}} Box */

/** Make the box of a place: {node, show(found, look), reopen()}; `found` is the result of `placeStatuses`.
 *
 * @param {Place} place
 * @param {TreeActs} acts
 * @returns {Box}
 */
export function makeBox(place, acts) {
  const {node: data} = place;
  const isBig = data.children.length > 0;
  const mark = el("span", {class: "mark", "aria-hidden": "true"});
  const spoken = el("span", {class: "sr"}); // the kind and the state
  const name = el("bdi", {class: "box-name"}, shortText(data.name, 80));
  const facts = el("span", {class: "box-facts"});
  const open = el("button", {type: "button", class: "box-open"}, icon(data.kind), name, spoken, mark, facts);
  const head = el("div", {class: "box-head"}, open);
  const words = el("div", {class: "box-words", dir: "auto", hidden: true});
  const after = afterLine(data, (id) => acts.placeOf(id).node.name);
  const node = el("div", {class: isBig ? "box big" : "box", role: "treeitem"}, head, after, words);
  node.dataset.kind = data.kind;
  node.dataset.place = data.id;
  if (data.is_called) node.classList.add("called");
  /** @type {Bar | null} */
  let last = null;
  /** @type {[PlaceStatus, TreeLook] | null} */
  let shown = null;
  head.addEventListener("click", ({target}) => {
    const isOwn = target === head || open.contains(/** @type {Node} */ (target));
    if (last && isOwn) acts.select(last);
  });

  const picker = place.counter && place.counter !== "item" ? makePicker(place, acts) : null;
  if (picker) head.append(picker.node);
  const items = data.kind === "each" ? itemsOf(place, acts) : null;
  if (items) node.append(items.node);
  const inside = isBig ? makeInside(node, head, data, acts) : null;

  /** @type {Shown["show"]} */
  function show(found, look) {
    inside?.show(found, look);
    const status = found.get(data.id);
    if (!status || (shown?.[0] === status && shown[1] === look)) return;
    shown = [status, look];
    last = status.last;
    node.dataset.state = status.state;
    mark.dataset.state = status.state;
    setText(mark, status.state === "idle" ? "" : STATUS_MARKS[status.state]);
    setText(facts, factsText(status, data.id));
    const isAround = isBig && status.tokens > 0;
    facts.title = isAround ? `${countText(status.tokens)} tokens, including the agents inside` : "";
    node.classList.toggle("selected", look.selectedPlace === data.id);
    setText(words, wordsOf(data, status, look));
    words.hidden = !words.textContent;
    words.title = words.textContent ?? "";
    open.title = `${data.about || KIND_WORDS[data.kind] || data.kind}: ${stateText(status.state)}`;
    setText(spoken, `, ${data.kind}, ${stateText(status.state)}, `);
    picker?.show(status, look.picks.get(data.id));
    const item = data.children.find((each) => each.is_called);
    if (items && item) items.show(valueOf(found, item.id), look.picks.get(item.id));
  }

  return {node, show, reopen: () => inside?.reopen()};
}

/** Make the boxes inside a box while it is open: {show(found, look), reopen()}.
 *
 * @param {HTMLElement} node
 * @param {HTMLElement} head
 * @param {TreeNode} data
 * @param {TreeActs} acts
 * @returns {Shown}
 */
function makeInside(node, head, data, acts) {
  const toggle = el("button", {type: "button", class: "box-toggle"});
  const back = backLine(data);
  /** @type {HTMLElement | null} */
  let place = null; // the element with the boxes
  /** @type {Box[]} */
  let boxes = [];
  /** @type {[PlaceStatuses, TreeLook] | null} */
  let shown = null; // arguments of the last `show`, for boxes that open later

  /** @param {boolean} isOpen */
  function setOpen(isOpen) {
    node.classList.toggle("closed", !isOpen);
    node.setAttribute("aria-expanded", String(isOpen));
    toggle.textContent = isOpen ? "▾" : "▸";
    toggle.setAttribute("aria-label", `${isOpen ? "Close" : "Open"} ${shortText(data.name, 80)}`);
    place?.remove();
    back?.remove();
    place = null;
    boxes = isOpen ? data.children.map((child) => makeBox(acts.placeOf(child.id), acts)) : [];
    if (!isOpen) return;
    const nodes = boxes.map((box) => box.node);
    place = el("div", {class: "box-inside", role: "group"});
    place.append(...(data.kind === "workflow" ? columnsOf(data.children, nodes) : nodes));
    node.append(place);
    if (back) node.append(back);
    if (shown) show(...shown);
  }

  /** @type {Shown["show"]} */
  function show(found, look) {
    shown = [found, look];
    for (const box of boxes) box.show(found, look);
  }

  /** Open or close the box and the boxes inside, by `acts.isOpen`. */
  function reopen() {
    const isOpen = acts.isOpen(data.id);
    if (isOpen === node.classList.contains("closed")) setOpen(isOpen);
    for (const box of boxes) box.reopen();
  }

  toggle.addEventListener("click", () => {
    const isOpen = node.classList.contains("closed");
    acts.setOpen(data.id, isOpen);
    setOpen(isOpen);
    acts.toggled();
  });
  head.prepend(toggle);
  setOpen(acts.isOpen(data.id));
  return {show, reopen};
}

/** Make the columns of a workflow, with the boxes of its steps.
 *
 * @param {TreeNode[]} children
 * @param {HTMLElement[]} nodes
 */
function columnsOf(children, nodes) {
  const boxes = new Map(children.map((each, i) => [each.id, nodes[i]]));
  return stagesOf(children).map((stage) => {
    return el("div", {class: "stage", role: "none"}, ...stage.map((each) => boxes.get(each.id)));
  });
}

/**
 * @param {Place} place
 * @param {TreeActs} acts
 */
function itemsOf(place, acts) {
  const child = place.node.children.find((each) => each.is_called);
  return child ? makeItems((count) => acts.pick(child.id, count)) : null;
}

/** Return the last words of an agent: those that it streams, else its output, its question or its error.
 *
 * @param {TreeNode} data
 * @param {PlaceStatus} status
 * @param {TreeLook} look
 */
function wordsOf({id, kind, children}, {state, last}, {saying, questions}) {
  if (state === "running") return shortText(saying.get(id)?.slice(-LAST_WORDS) ?? "", LAST_WORDS);
  const isOwn = last?.place === id && kind !== "each" && children.every((child) => child.is_called);
  if (!isOwn) return "";
  const question = state === "asks" ? questions.get(last.address) : undefined;
  return shortText(question ?? last.text, LAST_WORDS);
}

/** Make the line from the last box of a loop back to its first one; null for others.
 *
 * @param {TreeNode} node
 */
function backLine({kind, most, children}) {
  if (kind !== "loop") return null;
  const bound = most ? `, up to ${most} iterations` : "";
  const text = `back to ${shortText(children[0].name, 40)}${bound}`;
  return el("div", {class: "box-back", title: text}, el("span", {}, text));
}

/**
 * @param {PlaceStatus} status
 * @param {string} id
 */
function factsText({runs, seconds, waited, tokens, state, last}, id) {
  if (state === "idle") return "";
  const isRunning = state === "running" && last?.place === id && last.ended === null;
  const time = Math.floor(seconds);
  return [
    runs > 1 ? `×${countText(runs)}` : "",
    isRunning ? (time < 60 ? `${time} s` : durationText(time)) : "",
    !isRunning && seconds ? durationText(seconds) : "",
    waited >= SHOWN_WAIT ? `waited ${durationText(waited)}` : "",
    tokens ? `${countText(tokens)} tok` : "",
  ].filter(Boolean).join(" · ");
}

/** Make the picture: {node, build(about), show(placeStatuses, look)}.
 *
 * @param {TreeActs} acts
 */
export function makePicture(acts) {
  const node = el("div", {class: "picture", role: "tree", "aria-label": "Tree of agents"});
  /** @type {Box | null} */
  let root = null;
  return {
    node,
    /** @param {Place} rootPlace */
    build(rootPlace) {
      root = makeBox(rootPlace, acts);
      node.replaceChildren(root.node);
    },
    /** @type {Shown["show"]} */
    show: (found, look) => root?.show(found, look),
    reopen: () => root?.reopen(),
  };
}
