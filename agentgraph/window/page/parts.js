// The parts of an activation: its error, questions, tools, values and attempts.

import {durationText, el, longText, shortText} from "./elements.js";
import {actionButton, asText, foldable} from "./entries.js";
import {changeView, valueChanges} from "./diff.js";
import {questionRest, questionText, requestsIn} from "./forms.js";
import {lookAt} from "./looking.js";
import {dataView} from "./messages.js";
import {stateText} from "./states.js";

/** @import {Entry, Store} from "./page.d.ts" */
/** @import {AskedQuestion, Attempt, Data, ToolRun, Values} from "./shapes.d.ts" */

/** @type {Record<string, string>} */
const DECIDED = {approve: "approved", edit: "edited", reject: "rejected", respond: "answered"};

/** @param {string} error */
export function errorView(error) {
  return longText(error, {tag: "pre", most: 3000});
}

/** @param {Omit<AskedQuestion, "step">} asked */
export function questionView({question, answer, is_answered: isAnswered, is_late: isLate}) {
  const asked = question.value;
  const requests = requestsIn(asked);
  const decisions = isAnswered ? decisionsOn(requests, answer) : [];
  const rest = questionRest(asked);
  const said = isLate ? "Default " : "Answer ";
  return el(
    "div",
    {class: "asked"},
    longText(questionText(asked), {most: 1500}),
    ...requests.map(({name, args}, i) =>
      el(
        "div",
        {class: "request"},
        el("b", {}, shortText(name, 80)),
        dataView(args),
        decisions.length ? decisionView(decisions[i], said) : null,
      ),
    ),
    rest === undefined ? null : dataView(rest),
    !isAnswered
      ? el("p", {class: "quiet"}, isLate ? "Not answered in time" : "No answer yet")
      : decisions.length
        ? null
        : el("div", {}, el("span", {class: "quiet"}, said), dataView(answer)),
  );
}

/** Return the decisions on calls, one for each; none for another answer.
 *
 * @param {unknown[]} requests
 * @param {Data} answer
 * @returns {Data[]}
 */
function decisionsOn(requests, answer) {
  const several = decisionsIn(answer);
  return several.length === requests.length ? several : [];
}

/** Return the decisions of an answer; none if it has something else.
 *
 * @param {Data} answer
 * @returns {Data[]}
 */
function decisionsIn(answer) {
  const several = answer?.decisions ?? [answer];
  const fits = Array.isArray(several) && several.every((each) => DECIDED[each?.type]);
  return fits ? several : [];
}

/**
 * @param {Data} decision
 * @param {string} said
 */
function decisionView(decision, said) {
  const edited = decision.edited_action?.args;
  return el(
    "div",
    {},
    el("span", {class: "quiet"}, said),
    decisionText(decision),
    edited ? dataView(edited) : null,
  );
}

/** @param {Data} decision */
function decisionText({type, message}) {
  return message ? `${DECIDED[type]}: ${message}` : (DECIDED[type] ?? "");
}

/** Return an answer in one line: the decisions on calls, or its data.
 *
 * @param {Data} asked
 * @param {Data} answer
 */
export function answerText(asked, answer) {
  const requests = requestsIn(asked);
  const decisions = decisionsOn(requests, answer);
  const texts = decisions.map((each, i) => `${requests[i].name}: ${decisionText(each)}`);
  return texts.join(", ") || asText(answer);
}

/** Return an answer in one line without its question: the decisions on calls, or its data.
 *
 * @param {Data} answer
 */
export function shortAnswer(answer) {
  return decisionsIn(answer).map(decisionText).join(", ") || asText(answer);
}

/** @param {ToolRun} tool */
export function toolView(tool) {
  const {name, args, result, status, began, ended} = tool;
  const took = began && ended ? durationText(ended - began) : "";
  const title = [
    el("b", {}, shortText(name, 60)),
    " ",
    status ? el("span", {class: "pill", "data-state": status}, stateText(status)) : "",
    el("span", {class: "quiet"}, ` ${took}`),
  ];
  const body = () =>
    el(
      "div",
      {class: "inside"},
      el("span", {class: "quiet"}, "Arguments"),
      dataView(args),
      result === null || result === undefined ? null : el("span", {class: "quiet"}, "Result"),
      result === null || result === undefined ? null : dataView(result),
    );
  return foldable(title, body, {open: true, class: "tool-call"});
}

/**
 * @param {Values} before
 * @param {Values} after
 * @returns {Entry[]}
 */
export function valueEntries(before, after) {
  const changes = valueChanges(before, after);
  const changed = changes.filter(([, how]) => how !== "same");
  const same = changes.filter(([, how]) => how === "same");
  /** @type {Entry[]} */
  const entries = changed.map(([name, how, old, now]) => [
    `value-${name}`,
    [how, old, now],
    () =>
      foldable([el("b", {}, shortText(name, 80)), ` ${how}`], () => changeView(how, old, now), {
        open: true,
        class: "value",
        "data-how": how,
      }),
  ]);
  if (!same.length) return entries;
  const rest = () =>
    el(
      "div",
      {},
      ...same.map(([name, , , now]) =>
        foldable(el("b", {}, shortText(name, 80)), () => dataView(now), {class: "value"}),
      ),
    );
  const title = changed.length ? `${same.length} unchanged values` : `No changes: ${same.length} values`;
  return [...entries, ["same", same, () => foldable(title, rest, {class: "same"})]];
}

/**
 * @param {Store} store
 * @param {string} address
 * @param {Attempt} attempt
 */
export function attemptView(store, address, {step, status, error, text, line}) {
  const {threadId, bars} = store.state;
  const own = [...bars.values()].find(
    (bar) =>
      bar.kind === "agent" && bar.state === "void" && bar.address === address && bar.step === step,
  );
  const look = () => {
    if (line && threadId) lookAt(store, {threadId, line, step, address});
    else if (own) store.select(own.id);
  };
  return el(
    "div",
    {class: "attempt"},
    status ? el("span", {class: "pill", "data-state": status}, stateText(status)) : null,
    line ? el("span", {class: "quiet"}, " on an older version ") : " ",
    line || own ? actionButton("Open attempt", look, {class: "small"}) : null,
    error || (text && text !== status) ? longText(error || text, {most: 400}) : null,
  );
}
