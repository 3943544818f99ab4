// The input and output messages of an activation: by role, folded, with tool calls.

import {el, longText, shortText} from "./elements.js";
import {asText, foldable} from "./entries.js";

/** @import {Entry} from "./page.d.ts" */
/** @import {Message, ToolCall} from "./shapes.d.ts" */

/** @type {Record<string, string>} */
const ROLES = {system: "System", user: "User", assistant: "Agent", tool: "Tool"};
const SHOWN_LAST = 12; // messages shown at the end of a long history
const OPEN_LAST = 4; // number of those that are unfolded
const SHORT = 1500; // characters

/** Return the entries (see `putEntries`) for messages; `key` names their part of the panel.
 *
 * @param {Message[]} messages
 * @param {string} key
 * @param {boolean} isShown
 * @param {() => void} showAll
 * @returns {Entry[]}
 */
export function messageEntries(messages, key, isShown, showAll) {
  const hidden = isShown ? 0 : Math.max(0, messages.length - SHOWN_LAST - 3);
  /** @type {Entry[]} */
  const entries = messages.slice(hidden).map((message, i) => {
    const at = hidden + i;
    const isOpen = message.role !== "system" && at >= messages.length - OPEN_LAST;
    return [`${key}-${at}`, message, () => messageView(message, isOpen)];
  });
  if (!hidden) return entries;
  const label = `Show ${hidden} earlier messages`;
  const more = () => el("button", {type: "button", class: "show-all", onclick: showAll}, label);
  return [[`${key}-before`, hidden, more], ...entries];
}

/** Make the view of a message.
 *
 * @param {Message} message
 */
export function messageView(message, isOpen = true) {
  const {role, name, text = "", tool_calls: toolCalls = [], extra} = message;
  const called = toolCalls.map((each) => each.name).join(", ");
  const gist = shortText(text, 90) || (called ? `calls ${called}` : "(empty)");
  const isForwarded = role === "user" && Boolean(name); // a message of another agent or a tool
  const spokenBy = `Message from ${shortText(name ?? "", 40)}`;
  const speaker = isForwarded ? spokenBy : (ROLES[role] ?? String(role));
  const title = [
    el("b", {class: "role"}, speaker),
    name && !isForwarded ? el("span", {class: "name"}, shortText(name, 40)) : "",
    el("span", {class: "gist"}, gist),
  ];
  const body = () =>
    el(
      "div",
      {class: "inside"},
      text ? longText(text, {most: SHORT}) : null,
      ...toolCalls.map((each) => callView(each)),
      extra && Object.keys(extra).length
        ? foldable("more", () => dataView(extra), {class: "extra"})
        : null,
    );
  return foldable(title, body, {open: isOpen, class: "message", "data-role": role});
}

/** Make the short view of a model's tool call; the tools part shows the call with its result.
 *
 * @param {ToolCall} call
 */
function callView({name, args}) {
  const gist = `${shortText(name, 80)}(${shortText(JSON.stringify(args), 300)})`;
  return el("p", {class: "call"}, "calls ", el("code", {}, gist));
}

/** Make the view of data: indented JSON, or a text.
 *
 * @param {unknown} data
 */
export function dataView(data) {
  const view = longText(asText(data), {most: SHORT, tag: "pre"});
  view.classList.add("data");
  return view;
}
