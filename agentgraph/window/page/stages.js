// The steps of a workflow in columns: each step is right of its dependencies.

import {el, shortText} from "./elements.js";
import {valueOf} from "./maps.js";

/** @import {TreeNode} from "./shapes.d.ts" */

/** Return the columns of a workflow's children; a compensation is in the column of its step.
 *
 * @param {TreeNode[]} children
 */
export function stagesOf(children) {
  const byId = new Map(children.map((each) => [each.id, each]));
  /** @type {Map<string, number>} */
  const known = new Map();
  /**
   * @param {string} id
   * @returns {number}
   */
  const stageOf = (id) => {
    const before = known.get(id);
    if (before !== undefined) return before;
    const {needs, undoes} = valueOf(byId, id);
    const stage = undoes ? stageOf(undoes) : 1 + Math.max(-1, ...needs.map(stageOf));
    known.set(id, stage);
    return stage;
  };
  /** @type {TreeNode[][]} */
  const stages = [];
  for (const each of children) (stages[stageOf(each.id)] ??= []).push(each);
  return stages;
}

/** Make the line with the dependencies of a step, or with the step that it undoes; null for others.
 *
 * @param {TreeNode} node
 * @param {(id: string) => string} nameOf
 */
export function afterLine({needs, undoes}, nameOf) {
  /** @param {string[]} ids */
  const names = (ids) => ids.map((id) => shortText(nameOf(id), 40)).join(", ");
  const text = undoes ? `undoes ${names([undoes])}` : needs.length ? `after ${names(needs)}` : "";
  return text ? el("div", {class: "box-after", title: text}, text) : null;
}
