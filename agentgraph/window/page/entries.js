// Lists of entries that change while people read and type in them, and data as texts.

import {countText, el} from "./elements.js";

/** Return a button that does something. */
export function actionButton(label, onclick, attributes = {}) {
  return el("button", {type: "button", onclick, ...attributes}, label);
}

/** Return data as a person reads it: a text as it is, other data as indented JSON. */
export function asText(value) {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

/** Return what a number of tokens, or {input, output}, reads like; empty for none. */
export function tokensText(tokens) {
  if (typeof tokens === "number") return tokens ? `${countText(tokens)} tokens` : "";
  const {input = 0, output = 0} = tokens ?? {};
  return input || output ? `${countText(input)} tokens in, ${countText(output)} out` : "";
}

/**
 * Put entries into an element, and keep the nodes of those whose data is the same: so what a person
 * typed, opened or focused there stays. An entry is [key, data, make], with `make` for its node.
 */
export function putEntries(parent, entries) {
  const old = new Map([...parent.children].map((node) => [node.entryKey, node]));
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

function replacement(before, node) {
  if (before?.tagName === "DETAILS" && node.tagName === "DETAILS") node.open = before.open;
  return node;
}

/** Return a part of a panel that a person folds; its body is made when it is open first. */
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

/** Return an element that says why something was refused: {node, say(text, whole)}; "" hides it. */
export function refusal() {
  const node = el("div", {class: "fault", role: "alert", hidden: true});
  const say = (text, whole = "") => {
    node.replaceChildren(text ?? "");
    if (whole) node.append(el("details", {}, el("summary", {}, "the whole message"), whole));
    node.hidden = !text;
    if (text) node.scrollIntoView({block: "nearest"});
  };
  return {node, say};
}

/** Return a JSON object that a person typed: {values}, or {error} that says what is wrong. */
export function readObject(text) {
  try {
    const values = JSON.parse(text);
    if (values && typeof values === "object" && !Array.isArray(values)) return {values};
    return {error: 'The values must be a JSON object, such as {"topic": "bees"}.'};
  } catch (error) {
    return {error: `The values are not JSON: ${error.message}`};
  }
}
