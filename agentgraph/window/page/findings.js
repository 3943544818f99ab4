// Likely mistakes in the tree, which the server finds by `lint`: a line with their number, and a list.

import {el} from "./elements.js";

/** @import {Backend, Changed, State} from "./page.d.ts" */
/** @import {Finding} from "./shapes.d.ts" */

const WAIT = 300; // milliseconds after the tree is shown, because lint reads source files

/**
 * @param {Backend} backend
 * @param {(place: string) => void} reveal shows the box of a place
 */
export function makeFindings(backend, reveal) {
  const title = el("summary");
  const list = el("ul");
  const node = el("details", {class: "findings", hidden: true}, title, list);
  /** @type {unknown} */
  let tree = null; // the tree of the shown findings

  /** @param {unknown} wanted */
  async function load(wanted) {
    const answer = await backend.call("findings").catch(() => null);
    if (tree !== wanted) return;
    const findings = answer?.findings ?? [];
    node.hidden = !findings.length;
    title.textContent = findings.length === 1 ? "1 likely mistake" : `${findings.length} likely mistakes`;
    list.replaceChildren(...findings.map((each) => el("li", {}, ...parts(each))));
  }

  /** @param {Finding} finding */
  function parts({address, problem, advice, way, place}) {
    const show = () => place !== null && reveal(place);
    const agent = el("button", {type: "button", class: "finding-agent", disabled: place === null,
      title: "Show agent in tree", onclick: show}, address);
    const from = way.length > 1 ? el("div", {class: "quiet"}, `Way: ${way.join(" → ")}`) : null;
    return [agent, " ", el("span", {}, `${problem}; ${advice}.`), from];
  }

  return {
    node,
    /**
     * @param {State} state
     * @param {Changed} changed
     */
    update({about}, changed) {
      if (!about || !changed.has("about") || about.tree === tree) return;
      tree = about.tree;
      setTimeout(load, WAIT, tree);
    },
  };
}
