// The picker of an iteration of a loop, a transfer of a swarm or a call of an agent.

import {el, setText, shortText} from "./elements.js";
import {stateText} from "./states.js";

/** @import {Count, Counter, Place, ShownState, PlaceStatus, TreeActs} from "./page.d.ts" */
/** @import {TreeNode} from "./shapes.d.ts" */

const MOST_DOTS = 10; // maximum number of dots; each opens one iteration, transfer or call

/** Make the picker of a place: {node, show(status, picked)}.
 *
 * @param {Place} place
 * @param {Pick<TreeActs, "pick">} acts
 */
export function makePicker(place, acts) {
  const {node: data, counter} = place;
  /** @type {(name: string, label: string, text: string) => HTMLButtonElement} */
  const step = (name, label, text) => (
    el("button", {type: "button", class: name, "aria-label": label}, text)
  );
  const back = step("pick-back", `Previous ${counter}`, "‹");
  const forth = step("pick-forth", `Next ${counter}`, "›");
  const text = el("span", {class: "pick-text"});
  const dots = el("span", {class: "pick-dots"});
  const latest = el("button", {type: "button", class: "pick-latest quiet-button"}, "Latest");
  const node = el("span", {class: "picker", hidden: true}, text, back, dots, forth, latest);
  /** @type {string[]} */
  let keys = [];
  let at = 0;
  let shown = "";
  /** @param {number} number */
  const go = (number) => acts.pick(data.id, keys[Math.min(Math.max(number, 0), keys.length - 1)]);
  back.addEventListener("click", () => go(at - 1));
  forth.addEventListener("click", () => go(at + 1));
  latest.addEventListener("click", () => acts.pick(data.id, null));

  /**
   * @param {Pick<PlaceStatus, "counts">} status
   * @param {string | null} [picked]
   */
  function show({counts}, picked = null) {
    const entries = [...counts.entries()];
    const key = JSON.stringify([picked, entries.map(([count, each]) => [count, each.state])]);
    if (key === shown) return;
    shown = key;
    keys = entries.map(([count]) => count);
    node.hidden = !keys.length || (keys.length === 1 && counter === "call");
    at = picked === null ? keys.length - 1 : Math.max(0, keys.indexOf(picked));
    setText(text, keys.length ? pickText(counter, keys[at], keys, data) : "");
    node.classList.toggle("picked", picked !== null);
    latest.hidden = picked === null;
    back.disabled = at <= 0;
    forth.disabled = at >= keys.length - 1;
    back.hidden = forth.hidden = keys.length < 2;
    const first = Math.max(0, Math.min(at - MOST_DOTS / 2, keys.length - MOST_DOTS));
    const near = keys.length < 2 ? [] : entries.slice(first, first + MOST_DOTS);
    dots.replaceChildren(...near.map(([count, each]) => dotOf(count, each.state)));
  }

  /**
   * @param {string} count
   * @param {ShownState} state
   */
  function dotOf(count, state) {
    const label = `${pickText(counter, count, keys, data)}: ${stateText(state)}`;
    const isShown = count === keys[at] && "true";
    const dot = el("button", {
      type: "button", class: "dot", "aria-label": label, title: label, "aria-current": isShown,
    });
    dot.dataset.state = state;
    dot.addEventListener("click", () => acts.pick(data.id, count));
    return dot;
  }

  return {node, show};
}

/**
 * @param {Counter | null} counter
 * @param {string} count
 * @param {string[]} keys
 * @param {TreeNode} data
 */
function pickText(counter, count, keys, data) {
  const number = Number(count);
  if (counter === "iteration") {
    return data.most ? `iteration ${number + 1} of ${data.most}` : `iteration ${number + 1}`;
  }
  if (counter === "transfer") return `transfer ${number + 1} of ${keys.length}`;
  return Number.isNaN(number) ? `call ${shortText(count, 30)}` : `call ${number + 1} of ${keys.length}`;
}
