// The form for the values of a turn that starts or resumes.

import {el, newId, setText, shortText} from "./elements.js";
import {actionButton, readObject} from "./entries.js";

/** @import {Backend, Store} from "./page.d.ts" */
/** @import {KnownValues, Values} from "./shapes.d.ts" */

const MOST_NAMES = 40; // maximum number of proposed names
const LONGEST_INPUT = 12; // rows of the field

/** Make the form for values: {node, read, clear, show, load}.
 *
 * It proposes the names that the tree knows, with the present values of the thread, and names unknown ones.
 *
 * @param {Store} store
 * @param {Backend} backend
 */
export function valuesForm({state}, backend) {
  const [id, checkId] = [newId("values"), newId("values")];
  const unknown = el("p", {id: checkId, class: "value-note", role: "status"});
  const input = el("textarea", {
    id,
    rows: 3,
    class: "code",
    spellcheck: "false",
    placeholder: '{"name": "value"}',
    "aria-describedby": checkId,
    oninput: check,
  });
  const names = el("div", {class: "value-names", role: "group", "aria-label": "Values of the tree"});
  const note = el("p", {class: "limit-note", hidden: true});
  const node = el(
    "details",
    {class: "values", ontoggle: load},
    el("summary", {}, "Values"),
    note,
    el("label", {for: id}, "Values to set first, as JSON"),
    input,
    unknown,
    names,
  );
  /** @type {KnownValues | null} */
  let known = null;
  /** @type {string | null} */
  let missing = null;

  async function load() {
    if (!node.open) return;
    const {threadId, thread} = state;
    const hasValues = threadId && thread && thread.status !== "new" && thread.changed === null;
    const answer = await backend.call("values", hasValues ? {thread_id: threadId} : {}).catch(() => null);
    if (threadId !== state.threadId || !answer) return;
    known = answer;
    const title = known.names.length ? [el("small", {}, "Names:")] : [];
    names.replaceChildren(...title, ...known.names.slice(0, MOST_NAMES).map(nameButton));
    check();
  }

  /** @param {string} name */
  function nameButton(name) {
    const now = known && name in known.values ? JSON.stringify(known.values[name]) : "";
    const value = now ? el("span", {class: "quiet"}, ` ${shortText(now, 24)}`) : "";
    return actionButton(el("span", {}, shortText(name, 60), value), () => insert(name), {
      class: "small",
      title: now ? `Set ${name}; now ${shortText(now, 300)}` : `Set ${name}`,
    });
  }

  /** Write the present value of a name into the field, and select it.
   *
   * @param {string} name
   */
  function insert(name) {
    const {values: typed, error} = readObject(input.value.trim() || "{}");
    if (!typed) return setText(unknown, error);
    typed[name] ??= known?.values[name] ?? "";
    input.value = JSON.stringify(typed, null, 2);
    input.rows = Math.min(LONGEST_INPUT, input.value.split("\n").length);
    const start = input.value.indexOf(`${JSON.stringify(name)}: `) + JSON.stringify(name).length + 2;
    const value = JSON.stringify(typed[name], null, 2);
    const quote = typeof typed[name] === "string" ? 1 : 0;
    input.focus();
    input.setSelectionRange(start + quote, start + value.length - quote);
    return check();
  }

  /** Name the typed names that the tree does not know. */
  function check() {
    const {values: typed = {}} = readObject(input.value.trim() || "{}");
    const strange = known ? Object.keys(typed).filter((name) => !known?.names.includes(name)) : [];
    setText(unknown, strange.length ? `The tree does not know: ${shortText(strange.join(", "), 200)}` : "");
  }

  return {
    node,
    load,
    clear() {
      input.value = "";
      node.open = false;
      check();
    },
    /** @returns {{values?: Values, error?: string}} */
    read() {
      if (!input.value.trim()) return {};
      return readObject(input.value);
    },
    /** Open the field for a missing value, once for each name.
     *
     * @param {string | null} name
     */
    show(name) {
      if (name === missing) return;
      missing = name;
      note.hidden = !name;
      if (!name) return;
      note.textContent = `The run has no value ${shortText(name, 60)}. Resume with one:`;
      node.open = true;
      if (input.value.trim()) return;
      input.value = `{${JSON.stringify(name)}: ""}`;
      input.setSelectionRange(input.value.length - 2, input.value.length - 2);
    },
  };
}
