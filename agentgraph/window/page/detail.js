// One activation: its input, output, tools, values, questions and attempts.

import {itemName, placesOf} from "./activations.js";
import {el, icon, longText, newId, setText, shortText} from "./elements.js";
import {foldable, putEntries} from "./entries.js";
import {factEntries} from "./facts.js";
import {activationBar, lookedAt, selectTarget} from "./looking.js";
import {valueOf} from "./maps.js";
import {dataView, messageEntries} from "./messages.js";
import {attemptView, errorView, questionView, toolView, valueEntries} from "./parts.js";

/** @import {Backend, Bar, Changed, Entry, State, Store} from "./page.d.ts" */
/** @import {Activation, Message} from "./shapes.d.ts" */

const SECONDS_BETWEEN = 0.4; // seconds between reads of a changing activation
const NOTHING = "Select a node of the tree, or a bar of the timeline.";
const SECTIONS = [
  ["error", "Error"],
  ["questions", "Questions"],
  ["said", "Output"],
  ["tools", "Tools"],
  ["values", "Values"],
  ["saw", "Input"],
  ["attempts", "Earlier attempts"],
  ["remarks", "Remarks"],
];
const FOLDED = new Set(["attempts"]);

/** Make the panel of the selected activation.
 *
 * @param {Store} store
 * @param {Backend} backend
 */
export function makeDetail(store, backend) {
  const headingId = newId("detail");
  const heading = el("h2", {id: headingId}, "Activation");
  const head = el("div", {class: "about"});
  const note = el("p", {class: "quiet", role: "status"}, NOTHING);
  const sections = new Map(SECTIONS.map(([key, title]) => [key, sectionOf(title, !FOLDED.has(key))]));
  const live = el("div", {class: "live", "aria-busy": "true", hidden: true, dir: "auto"});
  const saidPart = valueOf(sections, "said").node;
  saidPart.append(live);
  const node = el(
    "section",
    {class: "detail", "aria-labelledby": headingId},
    heading,
    note,
    head,
    ...[...sections.values()].map((each) => each.node),
  );

  /** @type {string | null} */
  let key = null; // the selected activation, as JSON
  let print = ""; // fingerprint of its bar at the last read
  /** @type {Activation | null} */
  let data = null;
  let isReading = false;
  let timer = 0;
  let shownWhole = new Set(); // parts that show all messages

  async function read() {
    timer = 0;
    const {state} = store;
    const wanted = lookedAt(state);
    if (!wanted || isReading) return;
    isReading = true;
    const asked = key;
    print = printOf(activationBar(state));
    try {
      const answer = await backend.call("activation", wanted);
      if (asked === key) {
        data = answer;
        setText(note, "");
        show();
      }
    } catch (error) {
      if (asked === key) setText(note, error.message);
    }
    isReading = false;
    if (asked !== key || print !== printOf(activationBar(store.state))) readSoon();
  }

  function readSoon() {
    timer ||= setTimeout(read, data ? SECONDS_BETWEEN * 1000 : 0);
  }

  /**
   * @param {State} state
   * @param {Changed} changed
   */
  function update(state, changed) {
    if (state.selected === null && changed.has("bars")) queueMicrotask(() => selectTarget(store));
    const wanted = lookedAt(state);
    const now = wanted && JSON.stringify(wanted);
    if (now !== key) {
      key = now;
      data = null;
      shownWhole = new Set();
      clearTimeout(timer);
      timer = 0;
      setText(note, wanted ? "" : NOTHING);
      show();
      read();
    } else if (wanted && changed.has("bars") && printOf(activationBar(state)) !== print) readSoon();
    if (changed.has("bars") || changed.has("selected")) showHead();
    if (changed.has("texts")) showLive();
  }

  function show() {
    showHead();
    /** @type {Record<string, Entry[]>} */
    const entries = data ? entriesOf(data) : {};
    for (const [name, {node: part, body}] of sections) {
      putEntries(body, entries[name] ?? []);
      part.hidden = !entries[name]?.length;
    }
    showLive();
  }

  function showLive() {
    const {state} = store;
    const bar = activationBar(state);
    const isRunning = bar?.state === "running" && state.line === null;
    const text = (isRunning && state.texts.get(bar.address)) || "";
    setText(live, text);
    live.hidden = !text;
    if (text) saidPart.hidden = false;
  }

  /** Return the parts of a discarded attempt, of which only the error is stored.
   *
   * @param {Bar} bar
   * @param {Activation} activation
   * @returns {Record<string, Entry[]>}
   */
  function voidParts(bar, {attempts, saw, remarks}) {
    const error = attempts.find((each) => each.step === bar.step && !each.line)?.error ?? bar.text;
    return {
      error: error ? [["error", error, () => errorView(error)]] : [],
      saw: messageEntries(saw, "saw", true, () => {}),
      remarks: remarks.map((each, i) => [i, each, () => longText(each)]),
    };
  }

  /**
   * @param {Activation} activation
   * @returns {Record<string, Entry[]>}
   */
  function entriesOf(activation) {
    const {error, remarks, attempts, tools, signal} = activation;
    const bar = activationBar(store.state);
    if (bar?.state === "void") return voidParts(bar, activation);
    /** @type {(name: string, messages: Message[]) => Entry[]} */
    const parts = (name, messages) =>
      messageEntries(messages, name, shownWhole.has(name), () => {
        shownWhole.add(name);
        show();
      });
    const said = parts("said", activation.said);
    if (signal)
      said.push(["signal", signal, () => el("div", {class: "signal"}, "signal ", dataView(signal))]);
    return {
      error: error ? [["error", error, () => errorView(error)]] : [],
      questions: activation.questions.map((each, i) => [i, each, () => questionView(each)]),
      said,
      tools: tools.map((each) => [each.id, each, () => toolView(each)]),
      values: valueEntries(activation.values_before, activation.values_after),
      saw: [...itemEntries(store.state, bar, activation), ...parts("saw", activation.saw)],
      attempts: attempts.map((each, i) => [
        i,
        each,
        () => attemptView(store, activation.address, each),
      ]),
      remarks: remarks.map((each, i) => [i, each, () => longText(each)]),
    };
  }

  function showHead() {
    const {state} = store;
    const bar = activationBar(state);
    const facts = bar || data ? {...bar, ...withoutEmpty(data)} : null;
    const {kind = "node", agent_name: name} = facts ?? {};
    heading.replaceChildren(...(facts ? [icon(kind), ` ${name}`] : ["Activation"]));
    putEntries(head, facts ? factEntries(store, facts, bar) : []);
  }

  return {node, update};
}

/** Return the entry for the item that an activation runs for; none outside an `each`.
 *
 * @param {State} state
 * @param {Bar | undefined} bar
 * @param {Activation} activation
 * @returns {Entry[]}
 */
function itemEntries({about}, bar, {values_before: values}) {
  const name = itemName(placesOf(about?.tree), bar?.place);
  if (name === null || !(name in values)) return [];
  const item = values[name];
  const title = ["Item ", el("b", {}, shortText(name, 80))];
  return [["item", item, () => foldable(title, () => dataView(item), {open: true, class: "value"})]];
}

/**
 * @param {string} title
 * @param {boolean} open
 */
function sectionOf(title, open) {
  const body = el("div", {class: "entries"});
  const node = el(
    "details",
    {class: "part", hidden: true},
    el("summary", {}, el("h3", {}, title)),
    body,
  );
  node.open = open;
  return {node, body};
}

/** Return the fingerprint of a bar: its activation is read again when the fingerprint changes.
 *
 * @param {Bar | undefined} bar
 */
function printOf(bar) {
  if (!bar) return "";
  return JSON.stringify([bar.id, bar.state, bar.ended, bar.tokens_in, bar.tokens_out, bar.text]);
}

/**
 * @param {Activation | null} facts
 * @returns {Partial<Activation>}
 */
function withoutEmpty(facts) {
  return Object.fromEntries(
    Object.entries(facts ?? {}).filter(([, each]) => each !== null && each !== ""),
  );
}
