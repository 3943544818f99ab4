// The steps of a workflow in columns: each step stands behind all that it depends on.

import {el, shortText} from "./elements.js";

/** Return the children of a workflow by columns; what undoes a step stands in its column. */
export function stagesOf(children) {
  const byId = new Map(children.map((each) => [each.id, each]));
  const known = new Map();
  const stageOf = (id) => {
    const {needs, undoes} = byId.get(id);
    if (!known.has(id)) {
      known.set(id, undoes ? stageOf(undoes) : 1 + Math.max(-1, ...needs.map(stageOf)));
    }
    return known.get(id);
  };
  const stages = [];
  for (const each of children) (stages[stageOf(each.id)] ??= []).push(each);
  return stages;
}

/** Return the line that says behind which steps one runs, or which one it undoes; null for others. */
export function afterLine({needs, undoes}, nameOf) {
  const names = (ids) => ids.map((id) => shortText(nameOf(id), 40)).join(", ");
  const text = undoes ? `undoes ${names([undoes])}` : needs.length ? `after ${names(needs)}` : "";
  return text ? el("div", {class: "box-after", title: text}, text) : null;
}
