// The user message of a rerun: a new message, or one that replaces another.

import {el, newId, shortText} from "./elements.js";

/** @import {Activation, Changes} from "./shapes.d.ts" */

const LONGEST_MESSAGE = 200000; // maximum number of characters in the field
const MOST_MESSAGES = 50; // maximum number of replaceable messages, the latest ones
const REPLACED = "Agents read the new message as if it had been sent then.";
const TOO_LONG = "The original message is too long to be shown here. ";

/** Make the field for a user message: {node, read}; `read` returns the changes.
 *
 * @param {Pick<Activation, "saw">} activation
 */
export function messageField({saw}) {
  const own = saw.filter(({role, name, id}) => role === "user" && !name && id).slice(-MOST_MESSAGES);
  const byId = new Map(own.map((each) => [each.id ?? "", each]));
  const id = newId("message");
  const hintId = newId("message");
  const text = el("textarea", {id, rows: 2, placeholder: "none", "aria-describedby": hintId});
  const hint = el("small", {id: hintId});
  const choice = el(
    "select",
    {onchange: () => choose()},
    el("option", {value: ""}, "after the messages so far"),
    ...own.map((each) => el("option", {value: each.id}, `instead of “${shortText(each.text, 60)}”`)),
  );
  let filled = ""; // the text that the field was filled with
  const node = el(
    "div",
    {class: "field"},
    el("label", {for: id}, "User message"),
    text,
    own.length ? el("label", {}, "Position ", choice) : null,
    hint,
  );

  function choose() {
    const other = byId.get(choice.value);
    const isShown = other && other.text.length <= LONGEST_MESSAGE;
    const shown = isShown ? other.text : "";
    if (text.value === filled) text.value = shown;
    filled = shown;
    text.placeholder = other ? "" : "none";
    hint.textContent = other ? `${isShown ? "" : TOO_LONG}${REPLACED}` : "";
  }

  /** @returns {Pick<Changes, "text" | "replaces">} */
  function read() {
    const other = byId.get(choice.value);
    if (!other) return text.value.trim() ? {text: text.value} : {};
    if (!text.value.trim()) throw new Error("The replacement is empty. Type a message.");
    return text.value === other.text ? {} : {text: text.value, replaces: choice.value};
  }

  choose();
  return {node, read};
}
