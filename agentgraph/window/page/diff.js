// The differences of two texts, line by line, and of two sets of values.

import {actionButton, asText} from "./entries.js";
import {el} from "./elements.js";

/** @import {Data, Values} from "./shapes.d.ts" */

const MOST_CELLS = 1000000; // maximum table size to find common lines; larger texts differ as blocks
const MOST_LINES = 400; // maximum number of lines shown at first
const LONGEST_LINE = 500;
const AROUND = 3; // unchanged lines shown around a difference

/** @typedef {[sign: string, line: string]} SignedLine */
/** @typedef {{left?: string, right?: string}} SideNames */

/** Return the lines of two texts: [[sign, line], ...], with "-" before, "+" after, " " in both.
 *
 * @param {string} before
 * @param {string} after
 * @returns {SignedLine[]}
 */
export function lineDiff(before, after) {
  const left = before === "" ? [] : before.split("\n");
  const right = after === "" ? [] : after.split("\n");
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start++;
  let end = 0;
  const most = Math.min(left.length, right.length) - start;
  while (end < most && left[left.length - 1 - end] === right[right.length - 1 - end]) end++;
  const middle = commonLines(
    left.slice(start, left.length - end),
    right.slice(start, right.length - end),
  );
  /** @type {(line: string) => SignedLine} */
  const same = (line) => [" ", line];
  return [...left.slice(0, start).map(same), ...middle, ...left.slice(left.length - end).map(same)];
}

/** Return the difference of lines by their longest common subsequence.
 *
 * @param {string[]} left
 * @param {string[]} right
 * @returns {SignedLine[]}
 */
function commonLines(left, right) {
  /** @type {SignedLine[]} */
  const removed = left.map((line) => ["-", line]);
  /** @type {SignedLine[]} */
  const added = right.map((line) => ["+", line]);
  if (!left.length || !right.length || left.length * right.length > MOST_CELLS)
    return [...removed, ...added];
  const width = right.length + 1;
  const lengths = new Uint32Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      lengths[i * width + j] =
        left[i] === right[j]
          ? lengths[(i + 1) * width + j + 1] + 1
          : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  /** @type {SignedLine[]} */
  const lines = [];
  let [i, j] = [0, 0];
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) {
      lines.push([" ", left[i++]]);
      j++;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) lines.push(removed[i++]);
    else lines.push(added[j++]);
  }
  return [...lines, ...removed.slice(i), ...added.slice(j)];
}

/** Make the view of the difference of two texts.
 *
 * @param {string} before
 * @param {string} after
 * @param {SideNames} [sides]
 */
export function diffView(before, after, {left = "before", right = "after"} = {}) {
  const lines = withGaps(lineDiff(before, after));
  /** @type {Record<string, string>} */
  const names = {"-": `${left}: `, "+": `${right}: `};
  /** @param {SignedLine} signed */
  const row = ([sign, line]) =>
    el(
      "div",
      {class: "line", "data-sign": sign},
      el("span", {class: "sign", "aria-hidden": "true"}, sign),
      sign in names ? el("span", {class: "unseen"}, names[sign]) : null,
      el("span", {dir: "auto"}, cutLine(line)),
    );
  const node = el("div", {class: "diff"}, ...lines.slice(0, MOST_LINES).map(row));
  if (lines.length > MOST_LINES) {
    const rest = lines.slice(MOST_LINES);
    const more = actionButton(
      `Show ${Math.min(rest.length, 5000)} more lines`,
      () => {
        more.before(...rest.splice(0, 5000).map(row));
        if (!rest.length) more.remove();
      },
      {class: "show-all"},
    );
    node.append(more);
  }
  return node;
}

/** @param {string} line */
function cutLine(line) {
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line;
}

/** Leave out unchanged lines far from a difference.
 *
 * @param {SignedLine[]} lines
 */
function withGaps(lines) {
  const near = new Set();
  lines.forEach(([sign], i) => {
    if (sign === " ") return;
    for (let j = i - AROUND; j <= i + AROUND; j++) near.add(j);
  });
  /** @type {SignedLine[]} */
  const shown = [];
  let skipped = 0;
  const gap = () => {
    if (skipped) shown.push(["…", `${skipped} unchanged ${skipped === 1 ? "line" : "lines"}`]);
    skipped = 0;
  };
  lines.forEach((line, i) => {
    if (!near.has(i)) return skipped++;
    gap();
    return shown.push(line);
  });
  gap();
  return shown;
}

/** @typedef {[name: string, how: How, before: Data, after: Data]} Change */
/** @typedef {"added" | "removed" | "same" | "changed"} How */

/** Return the changes of values: [[name, how, before, after], ...], changed values first.
 *
 * @param {Values | null | undefined} before
 * @param {Values | null | undefined} after
 * @returns {Change[]}
 */
export function valueChanges(before, after) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  /** @type {Change[]} */
  const rows = names.map((name) => {
    const [old, now] = [before?.[name], after?.[name]];
    if (!Object.hasOwn(before ?? {}, name)) return [name, "added", old, now];
    if (!Object.hasOwn(after ?? {}, name)) return [name, "removed", old, now];
    return [name, JSON.stringify(old) === JSON.stringify(now) ? "same" : "changed", old, now];
  });
  return [...rows.filter(([, how]) => how !== "same"), ...rows.filter(([, how]) => how === "same")];
}

/** Make the view of a value's change.
 *
 * @param {How} how
 * @param {unknown} before
 * @param {unknown} after
 * @param {SideNames} [sides]
 */
export function changeView(how, before, after, sides) {
  return diffView(how === "added" ? "" : asText(before), how === "removed" ? "" : asText(after), sides);
}
