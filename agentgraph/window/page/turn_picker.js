// The choice of the turn that the tree and the view by agent show.

import {el} from "./elements.js";

/** @import {Store} from "./page.d.ts" */

const MOST_TURNS = 200; // maximum number of turns to choose from, the last ones

/** Make the choice: {node, show(last)}, where `last` is the number of the last turn.
 *
 * @param {Store} store
 * @param {{hasAll?: boolean}} [options] whether all turns can be shown together
 */
export function makeTurnPicker(store, {hasAll = false} = {}) {
  const {state} = store;
  const node = el("select", {class: "turn-picker", "aria-label": "Turn", hidden: true});
  node.addEventListener("change", () => {
    const turn = node.value === "last" ? null : node.value === "all" ? -1 : Number(node.value);
    store.set({turn, picks: new Map()});
  });
  let shown = -1; // the last turn of the present options

  return {
    node,
    /** @param {number} last */
    show(last) {
      node.hidden = last < 1;
      if (shown !== last) {
        const numbers = Array.from({length: Math.min(last, MOST_TURNS)}, (_, back) => last - 1 - back);
        node.replaceChildren(
          el("option", {value: "last"}, `turn ${last + 1} (last)`),
          ...numbers.map((number) => el("option", {value: number}, `turn ${number + 1}`)),
          ...(hasAll ? [el("option", {value: "all"}, "all turns")] : []),
        );
      }
      shown = last;
      const isAll = hasAll && state.turn === -1;
      const isLast = (state.turn ?? -1) < 0 || (state.turn ?? 0) >= last; // a rewind may have removed it
      node.value = isAll ? "all" : isLast ? "last" : String(state.turn);
    },
  };
}
