// The choice of a tree, on a page of several trees; another tree is opened by the event "showtree".

import {el} from "./elements.js";

/** @import {Changed, State} from "./page.d.ts" */
/** @import {ThreadRow} from "./shapes.d.ts" */

export function makeTreeChoice() {
  const select = el("select", {class: "tree-choice", "aria-label": "Tree", hidden: true});
  select.addEventListener("change", () => showTree(select, {tree: select.value}));
  let shown = "";
  return {
    node: select,
    /**
     * @param {State} state
     * @param {Changed} changed
     */
    update({about}, changed) {
      if (!about || !changed.has("about")) return;
      const {trees, name} = about;
      select.hidden = trees.length < 2;
      const now = JSON.stringify([trees, name]);
      if (now === shown) return;
      shown = now;
      select.replaceChildren(...trees.map((each) => el("option", {value: each}, each)));
      select.value = name;
    },
  };
}

/** Open another tree of the page, or the tree that ran a thread.
 *
 * @param {HTMLElement} node
 * @param {{tree?: string, thread?: string}} detail
 */
export function showTree(node, detail) {
  node.dispatchEvent(new CustomEvent("showtree", {bubbles: true, detail}));
}

/** Return the name of the other tree that ran a thread; empty if the shown tree ran it.
 *
 * @param {State} state
 * @param {ThreadRow} thread
 */
export function otherTree({about}, {tree}) {
  return tree && about && tree !== about.tree.name ? tree : "";
}

/** Make the button that lists the threads of other trees, too: {node, update}.
 *
 * @param {(isShown: boolean) => unknown} show
 */
export function makeOthersButton(show) {
  const button = el("button", {type: "button", class: "thread-others quiet-button", hidden: true});
  let isShown = false;
  button.addEventListener("click", () => show(!isShown));
  return {
    node: button,
    /** @param {State} state */
    update({threads, others}) {
      isShown = others;
      button.hidden = !threads?.others;
      button.textContent = others ? "Hide threads of other trees" : "Show threads of other trees";
    },
  };
}
