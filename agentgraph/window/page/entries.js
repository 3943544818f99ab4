// Lists of entries that change while a person reads and types in them, and data as text.

import {countText, el} from "./elements.js";

/** @import {Attributes, Child, Entry} from "./page.d.ts" */
/** @import {Values} from "./shapes.d.ts" */
/** @typedef {HTMLElement & {entryKey?: unknown, entryPrint?: string}} EntryNode */

/** Make a button with an action.
 *
 * @param {string | Node} label
 * @param {(event: MouseEvent) => unknown} onclick
 * @param {Attributes} [attributes]
 */
export function actionButton(label, onclick, attributes = {}) {
  return el("button", {type: "button", onclick, ...attributes}, label);
}

/** Format data: a text unchanged, other data as indented JSON.
 *
 * @param {unknown} value
 */
export function asText(value) {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

/** Format the cost of a turn; without prices it is an empty text.
 *
 * @param {string | null | undefined} cost
 */
export function costText(cost) {
  return cost ? `cost of the turn: ${cost}` : "";
}

/** Format a number of tokens, or {input, output}; no tokens are an empty text.
 *
 * @param {number | {input: number | null, output: number | null} | null | undefined} tokens
 */
export function tokensText(tokens) {
  if (typeof tokens === "number") return tokens ? `${countText(tokens)} tokens` : "";
  const [input, output] = [tokens?.input ?? 0, tokens?.output ?? 0];
  return input || output ? `${countText(input)} tokens in, ${countText(output)} out` : "";
}

/**
 * Put entries into an element. Entries with unchanged data keep their nodes, so that typed texts, opened
 * parts and the focus stay. An entry is [key, data, make], where `make` returns its node.
 *
 * @param {Element} parent
 * @param {Entry[]} entries
 */
export function putEntries(parent, entries) {
  const made = /** @type {EntryNode[]} */ ([...parent.children]);
  const old = new Map(made.map((node) => [node.entryKey, node]));
  let at = parent.firstChild;
  for (const [key, data, make] of entries) {
    const print = JSON.stringify(data) ?? "";
    const before = old.get(key);
    old.delete(key);
    const node = before?.entryPrint === print ? before : replacement(before, make());
    Object.assign(node, {entryKey: key, entryPrint: print});
    if (before === at && at) at = at.nextSibling;
    if (before && before !== node) before.remove();
    if (node !== before || node.nextSibling !== at) parent.insertBefore(node, at);
  }
  for (const node of old.values()) node.remove();
}

/**
 * @param {HTMLElement | undefined} before
 * @param {HTMLElement} node
 */
function replacement(before, node) {
  const isFolded = before instanceof HTMLDetailsElement && node instanceof HTMLDetailsElement;
  if (isFolded) node.open = before.open;
  return node;
}

/** Make a foldable part of a panel; its body is made when it is first opened.
 *
 * @param {Child | Child[]} title
 * @param {() => Node} makeBody
 * @param {Attributes & {open?: boolean}} [options]
 */
export function foldable(title, makeBody, {open = false, ...attributes} = {}) {
  const summary = el("summary", {}, ...[title].flat());
  const node = el("details", attributes, summary);
  let isMade = false;
  const make = () => {
    if (!node.open || isMade) return;
    isMade = true;
    node.append(makeBody());
  };
  node.addEventListener("toggle", make);
  node.open = open;
  make();
  return node;
}

/** Make an element for an error: {node, say(text, whole)}; "" hides it.
 *
 * @returns {{node: HTMLElement, say: (text: string, whole?: string) => void}}
 */
export function refusal() {
  const node = el("div", {class: "fault", role: "alert", hidden: true});
  /**
   * @param {string} text
   * @param {string} [whole]
   */
  const say = (text, whole = "") => {
    node.replaceChildren(text);
    if (whole) node.append(el("details", {}, el("summary", {}, "Complete message"), whole));
    node.hidden = !text;
    if (text) node.scrollIntoView({block: "nearest"});
  };
  return {node, say};
}

/** Read a typed JSON object: {values}, or {error} with the text of the error.
 *
 * @param {string} text
 * @returns {{values: Values, error?: undefined} | {values?: undefined, error: string}}
 */
export function readObject(text) {
  try {
    const values = JSON.parse(text);
    if (values && typeof values === "object" && !Array.isArray(values)) return {values};
    return {error: 'The values must be a JSON object, such as {"topic": "bees"}.'};
  } catch (error) {
    return {error: `The values are not JSON: ${error.message}`};
  }
}
