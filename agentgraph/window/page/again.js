// Reruns from an activation, with another message, other values, or another answer.

import {pathOf, pathsOf, placesOf} from "./activations.js";
import {messageField} from "./changed_message.js";
import {el, longText, newId} from "./elements.js";
import {actionButton, foldable, readObject, refusal} from "./entries.js";
import {faultsIn, questionForm, questionText, showFaults} from "./forms.js";
import {answerText} from "./parts.js";

/** @import {Backend, Child, Store} from "./page.d.ts" */
/** @import {Activation, AskedQuestion, Changes, Spot} from "./shapes.d.ts" */

const PARALLEL = new Set(["parallel", "workflow", "each"]);
const LONGEST_VALUES = 200000; // maximum number of characters in the editor of values

/**
 * @typedef {{
 *   name: HTMLInputElement, changes: ReturnType<typeof changesForm>, title: HTMLElement,
 *   remove: HTMLElement, node: HTMLElement,
 * }} Variant
 */

/** Make the form for the changes before a rerun: {node, read, showError}; `read` may throw.
 *
 * @param {Activation} activation
 * @param {(step: string) => void} startAt chooses the step to rerun from
 */
function changesForm(activation, startAt) {
  const {values_before: before, questions} = activation;
  const valuesId = newId("again");
  const message = messageField(activation);
  const json = JSON.stringify(before, null, 2);
  const isLong = json.length > LONGEST_VALUES;
  const start = isLong ? "{}" : json;
  const rows = Math.min(12, start.split("\n").length + 1);
  const values = el("textarea", {
    id: valuesId,
    rows,
    class: "code",
    spellcheck: "false",
    value: start,
  });
  const about = isLong ? "The values are too long to be shown. Type only the values to change." : "";
  const parts = questions.map((each) => answerForm(each, () => startAt(each.step)));
  const valuesField = el(
    "div",
    {class: "field"},
    el("label", {for: valuesId}, "Values at the start, as JSON"),
    values,
    about ? el("small", {}, about) : null,
  );
  const node = el(
    "div",
    {class: "changes"},
    ...parts.map((each) => each.node),
    foldable("Change message", () => message.node, {class: "change"}),
    foldable("Change values", () => valuesField, {class: "change"}),
  );

  function changedValues() {
    const {values: now, error} = readObject(values.value.trim() || "{}");
    if (error !== undefined) throw new Error(error);
    const gone = isLong ? [] : Object.keys(before).filter((name) => !(name in now));
    if (gone.length)
      throw new Error(`A value cannot be removed. Set ${gone.join(", ")} to null, or leave the value.`);
    return Object.entries(now).filter(
      ([name, value]) => JSON.stringify(before[name]) !== JSON.stringify(value),
    );
  }

  function read() {
    /** @type {Changes} */
    const changes = message.read();
    const changed = changedValues();
    if (changed.length) changes.values = Object.fromEntries(changed);
    const answers = parts.map((part) => part.read()).filter((each) => each !== null);
    if (answers.length) changes.answers = Object.fromEntries(answers);
    return changes;
  }

  /** @param {string} why */
  function showError(why) {
    for (const part of parts) part.showError(why);
  }

  return {node, read, showError};
}

/** Make the form for another answer to a question of the activation.
 *
 * The rerun starts at the step that asked, because only this step takes the answer.
 *
 * @param {AskedQuestion} asked
 * @param {() => void} startThere
 */
function answerForm({question, answer}, startThere) {
  const {id, value} = question;
  const inner = questionForm(question, answer);
  const check = el("input", {type: "checkbox"});
  const place = el("div", {hidden: true}, inner.node);
  check.addEventListener("change", () => {
    place.hidden = !check.checked;
    if (check.checked) startThere();
  });
  const node = el(
    "fieldset",
    {class: "other-answer"},
    el("legend", {}, "Question"),
    longText(questionText(value), {most: 400}),
    answer === null || answer === undefined
      ? null
      : el("p", {class: "quiet"}, `Answer: ${answerText(question.value, answer).slice(0, 300)}`),
    el("label", {class: "check"}, check, "Change answer"),
    place,
  );
  return {
    node,
    /** @returns {[id: string, answer: unknown] | null} */
    read: () => (check.checked ? [id, inner.read() ?? null] : null),
    /** @param {string} message */
    showError: (message) => showFaults(inner, check.checked ? faultsIn(message, question.address) : []),
  };
}

/** Return a name for a variant that no other variant and no listed thread has.
 *
 * @param {Store} store
 * @param {string} threadId
 * @param {string[]} [names] the names of the other variants
 */
export function freeVariant({state}, threadId, names = []) {
  const threads = new Set((state.threads?.threads ?? []).map((each) => each.thread_id));
  /** @param {string} each */
  const isFree = (each) => !names.includes(each) && !threads.has(`${threadId}-${each}`);
  return [..."abcdefghijklmnopqrstuvwxyz"].find(isFree) ?? `v${threads.size + names.length + 1}`;
}

/** Make the form "Rerun from here" of an activation; it calls `isForked(threads)` with new threads.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {Spot} wanted
 * @param {Activation} activation
 * @param {(point: Spot, threads: {[name: string]: string}) => unknown} isForked
 */
export function makeAgain(store, backend, wanted, activation, isForked) {
  const name = newId("how");
  const fault = refusal();
  const said = el("p", {class: "quiet", role: "status"});
  /** @type {(value: string, checked: boolean) => HTMLInputElement} */
  const radio = (value, checked) => el("input", {type: "radio", name, value, checked, onchange: show});
  const here = radio("here", true);
  const forked = radio("forked", false);
  const siblings = el(
    "select",
    {},
    el("option", {value: "keep"}, "keep their results"),
    el("option", {value: "rerun"}, "rerun"),
  );
  const isInParallel = hasParallelParent(store, activation);
  const beside = el("label", {class: "beside"}, "Parallel branches ", siblings);
  const from = fromSelect(activation);
  const list = el("div", {class: "variants"});
  const more = actionButton("Add variant", () => addVariant().name.focus(), {class: "add"});
  const go = el("button", {class: "primary"}, "Rerun from here");
  const form = el(
    "form",
    {novalidate: true, onsubmit: submit},
    stepOf(
      "Start",
      el("p", {}, el("code", {class: "from-here"}, activation.address)),
      from.node,
    ),
    stepOf(
      "Target",
      el(
        "div",
        {class: "how", role: "radiogroup", "aria-label": "Target"},
        el("label", {class: "check"}, here, "on this thread; the later steps stay as an older version"),
        el("label", {class: "check"}, forked, "as variants, each on a new thread"),
      ),
      beside,
    ),
    stepOf("Changes", el("p", {class: "quiet"}, "Optional; all of them apply together."), list, more),
    fault.node,
    el("div", {class: "row"}, go),
    said,
  );
  /** @type {Variant[]} */
  const variants = [];
  let hasForked = false; // whether a second variant has been added

  function addVariant() {
    const changes = changesForm(activation, from.choose);
    const id = newId("variant");
    const input = el("input", {id, value: freeName(), autocomplete: "off"});
    const remove = actionButton(
      "×",
      () => {
        variants.splice(variants.indexOf(variant), 1);
        variant.node.remove();
        show();
        more.focus();
      },
      {"aria-label": "Remove variant"},
    );
    const title = el("div", {class: "row name-row"}, el("label", {for: id}, "Name"), input, remove);
    /** @type {Variant} */
    const variant = {
      name: input,
      changes,
      title,
      remove,
      node: el("div", {class: "variant"}, title, changes.node),
    };
    variants.push(variant);
    list.append(variant.node);
    show();
    return variant;
  }

  function freeName() {
    return freeVariant(store, wanted.thread_id, variants.map((each) => each.name.value));
  }

  function show() {
    const isFork = forked.checked;
    if (isFork && !hasForked) {
      hasForked = true;
      return addVariant();
    }
    variants.forEach(({node, title, remove}, i) => {
      node.hidden = !isFork && i > 0;
      title.hidden = !isFork;
      remove.hidden = variants.length < 2;
    });
    more.hidden = !isFork;
    beside.hidden = isFork || !isInParallel;
    const number = variants.length === 1 ? "1 variant" : `${variants.length} variants`;
    go.textContent = isFork ? `Run ${number}` : "Rerun from here";
    return undefined;
  }

  /** @param {SubmitEvent} event */
  function submit(event) {
    event.preventDefault();
    fault.say("");
    said.textContent = "";
    const several = forked.checked ? variants : variants.slice(0, 1);
    try {
      const changes = several.map((each) => each.changes.read());
      const point = {...wanted, ...from.read()};
      delete point.line;
      if (forked.checked) fork(point, changes);
      else rewind(point, changes[0]);
    } catch (error) {
      fault.say(error.message);
    }
  }

  /**
   * Make a call and show its error here.
   *
   * @type {Store["want"]}
   */
  async function call(kind, args) {
    go.disabled = true;
    try {
      return await backend.call(kind, args);
    } catch (error) {
      fault.say(error.message);
      for (const {changes} of variants) changes.showError(error.message);
      return undefined;
    } finally {
      go.disabled = false;
    }
  }

  /**
   * @param {Spot} point
   * @param {Changes} changed
   */
  async function rewind(point, changed) {
    const keeps = /** @type {"keep" | "rerun"} */ (siblings.value);
    const args = {...point, changes: {siblings: keeps, ...changed}};
    if (!(await call("rewind", args))) return;
    said.textContent = "Rerun started. The previous steps stay as an older version.";
    if (store.state.line !== null) store.open(point.thread_id);
  }

  /**
   * @param {Spot} point
   * @param {Changes[]} changes
   */
  async function fork(point, changes) {
    const names = variants.map((each) => each.name.value.trim());
    if (names.some((each) => !each)) return fault.say("A variant has no name. Name each variant.");
    if (new Set(names).size < names.length) return fault.say("Two variants have the same name. Rename one.");
    const named = Object.fromEntries(names.map((each, i) => [each, changes[i]]));
    const answer = await call("fork", {...point, variants: named});
    if (answer) isForked(point, answer.threads);
    return undefined;
  }

  addVariant();
  return form;
}

/** Make a step of the form; the steps are numbered by the style sheet.
 *
 * @param {string} title
 * @param {Child[]} children
 */
function stepOf(title, ...children) {
  return el("section", {class: "rerun-step"}, el("h4", {}, title), ...children);
}

/** Return whether other branches, steps or items ran concurrently with an activation.
 *
 * @param {Store} store
 * @param {Activation} activation
 */
function hasParallelParent({state}, {address}) {
  const tree = state.about?.tree;
  const id = pathsOf(tree).get(pathOf(address)) ?? "";
  for (let at = placesOf(tree).get(id); at; at = at.parent ?? undefined) {
    if (PARALLEL.has(at.parent?.node.kind ?? "")) return true;
  }
  return false;
}

/** Make the choice of the step to rerun from, for an activation with several steps.
 *
 * @param {Activation} activation
 * @returns {{node: Child, read: () => Partial<Spot>, choose: (step: string) => void}}
 */
function fromSelect({steps}) {
  if (steps.length < 2) return {node: "", read: () => ({}), choose: () => {}};
  const options = steps
    .slice(1)
    .map((step, i) => el("option", {value: step}, `step ${i + 2} of ${steps.length}`));
  const start = el("option", {value: ""}, `step 1 of ${steps.length}, the start`);
  const select = el("select", {}, start, ...options);
  const read = () => (select.value ? {at: select.value, turn: undefined} : {});
  /** @param {string} step */
  const choose = (step) => {
    select.value = steps.indexOf(step) > 0 ? step : "";
  };
  return {node: el("label", {class: "from"}, "From ", select), read, choose};
}
