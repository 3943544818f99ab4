// A message of the user before something runs again: one more, or one in the place of another.

import {el, newId, shortText} from "./elements.js";

/** @import {Activation, Changes} from "./shapes.d.ts" */

const LONGEST_MESSAGE = 200000; // characters that the field is filled with
const MOST_MESSAGES = 50; // that may be replaced, the last ones
const REPLACED = "Agents read it as if it had been said so.";
const TOO_LONG = "The other one is too long to be shown here. ";

/** Return the field for a message of the user: {node, read}; `read` returns what of it is changed.
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
    el("option", {value: ""}, "behind what was said so far"),
    ...own.map((each) => el("option", {value: each.id}, `in place of “${shortText(each.text, 60)}”`)),
  );
  let filled = ""; // what the field was filled with
  const node = el(
    "div",
    {class: "field"},
    el("label", {for: id}, "A message of the user"),
    text,
    own.length ? el("label", {}, "Its place ", choice) : null,
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
    if (!text.value.trim()) throw new Error("Type the message that takes the place of the other one.");
    return text.value === other.text ? {} : {text: text.value, replaces: choice.value};
  }

  choose();
  return {node, read};
}
