// The legend of the tree and the timeline: boxes, states and marks.

import {el, icon} from "./elements.js";
import {KIND_WORDS} from "./picture.js";
import {STATES, STATUS_MARKS, stateText} from "./states.js";

/** @import {Child} from "./page.d.ts" */

/** @typedef {[sign: string, meaning: string]} Sign */

/** @type {Sign[]} */
const BOX_SIGNS = [
  ["dashed box", "called by the enclosing agent, or for each item"], ["dotted box", "a switch"],
  ["thick lower edge", "closed; ▸ opens it"],
];
/** @type {Sign[]} */
const BAR_SIGNS = [
  ["fading bar", "running"], ["hatched bar", "paused or discarded"], ["dashed bar", "stopped or discarded"],
];
/** @type {Sign[]} */
const SIGNS = [
  ["→", "then"], ["↳", "continues the row above"], ["▴ line", "the way back of a loop"],
  ["⇄", "may transfer to each other"], ["×3", "ran 3 times"],
  ["●●", "iterations, transfers or calls; select one"], ["1.2k tok", "tokens, with those inside"],
  ["grey band", "a hidden wait, with its length; the ruler does not count it"],
];

/** Make the legend: {node, show(kinds)}; it describes the kinds of agents that a tree has. */
export function makeLegend() {
  const about = {role: "group", "aria-label": "Legend", tabindex: 0};
  const node = el("div", {class: "legend", hidden: true, ...about});
  return {
    node,
    /** @param {Iterable<string>} kinds */
    show(kinds) {
      node.replaceChildren(
        legendPart("Boxes", [...[...kinds].map(kindEntry), ...BOX_SIGNS.map(signEntry)]),
        legendPart("States", [...STATES.map(stateEntry), ...BAR_SIGNS.map(signEntry)]),
        legendPart("Marks", SIGNS.map(signEntry)),
      );
    },
  };
}

/**
 * @param {string} title
 * @param {HTMLElement[]} entries
 */
function legendPart(title, entries) {
  return el("section", {}, el("h3", {}, title), el("ul", {}, ...entries));
}

/** @param {Sign} sign */
function signEntry([sign, meaning]) {
  return el("li", {}, el("b", {}, sign), `: ${meaning}`);
}

/** @param {string} kind */
function kindEntry(kind) {
  const entry = el("li", {}, icon(kind), ` ${kind}: ${KIND_WORDS[kind] ?? kind}`);
  entry.dataset.kind = kind;
  return entry;
}

/** @param {string} state */
function stateEntry(state) {
  const mark = el("span", {class: "mark"}, STATUS_MARKS[state]);
  mark.dataset.state = state;
  return el("li", {}, mark, ` ${stateText(state)}`);
}
