// The items of a conversation as nodes: messages, tool calls, questions, and what runs again from them.

import {placesOf, pathOf, pathsOf} from "./activations.js";
import {freeVariant} from "./again.js";
import {el, icon, longText, newId, shortText, timeText} from "./elements.js";
import {actionButton, foldable, refusal} from "./entries.js";
import {questionText} from "./forms.js";
import {lookAt} from "./looking.js";
import {dataView} from "./messages.js";
import {errorView, questionView} from "./parts.js";
import {blocksOf, textOf} from "./turns.js";

/** @import {Backend, Changed, Entry, State, Store, TalkCall, TalkItem} from "./page.d.ts" */
/** @import {AgentEvent, AgentKind, Changes, Data, MessageData, Question} from "./shapes.d.ts" */
/** @import {TreeNode, Values} from "./shapes.d.ts" */

/** @typedef {(text: string) => void} Say */
/**
 * The state of a question.
 *
 * @typedef {{
 *   state: "pending" | "stored" | "over", answer?: Data, isAnswered?: boolean, isLate?: boolean,
 * }} Asked
 */

const LONG_MESSAGE = 3000; // characters of a message that are shown at first
const AGAIN_TIP = "run again from here; the later steps stay as an older version";
const BRANCH_TIP = "run again from here on a new thread";
const STORED = "The answer is stored. The next run takes it.";
/** @type {Record<string, string>} */
const NOTES = {
  exit: "ended the run", break_loop: "ended the loop", transfer_to: "transferred to", chosen: "chose",
  values: "set", default: "Not answered in time. Default:", custom: "data", action: "data",
};

/** Make the maker of items: {entryOf, speech, update}; `say` shows the error of a call.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {Say} say
 */
export function makeTalkItems(store, backend, say) {
  const {state} = store;
  const runs = makeRuns(store, backend, say);
  /** @type {Map<string, unknown>} */
  const edited = new Map(); // the data of the messages whose form is open, by key: it stays until then
  /** @type {Map<string, AgentKind>} */
  let kinds = new Map(); // by the addresses of agents without counters

  /** @param {string} address */
  const kindAt = (address) => kinds.get(pathOf(address)) ?? "node";

  /** Whether the thread can run again from its items. */
  function canRun() {
    return state.line === null && !state.about?.is_read_only && state.thread?.status !== "running";
  }

  /**
   * @param {TalkItem} item
   * @returns {Entry}
   */
  function entryOf(item) {
    if (item.kind === "turn") return [item.key, item.time, () => turnView(item.turn, item.time)];
    if (item.kind === "set") return [item.key, null, () => setView(item.values)];
    if (item.kind === "sent") {
      const data = edited.get(item.key) ?? [item.message.text, item.isEdited, canRun()];
      return [item.key, data, () => sentView(item, data)];
    }
    const {event, calls, isFirst, isLast} = item;
    const results = calls.map((each) => each.result?.id ?? null);
    return [item.key, [isFirst, isLast, results, canRun(), askedAt(event)], () => eventView(item)];
  }

  /**
   * @param {string} name
   * @param {string} address
   */
  function whoView(name, address) {
    const isRoot = address === name;
    return el("header", {class: "who", title: address}, icon(kindAt(address)),
      el("b", {}, el("bdi", {}, shortText(name, 60))),
      isRoot ? null : el("span", {class: "address"}, el("bdi", {}, shortText(address, 160))));
  }

  /** Return the node of a text that is being streamed; its last element has the text.
   *
   * @param {string} address
   */
  function speech(address) {
    const name = pathOf(address).split("/").at(-1) ?? address;
    return el("article", {class: "talk-item said", "aria-live": "off", "aria-busy": "true"},
      whoView(name, address), el("div", {class: "long", dir: "auto"}));
  }

  // messages of the user

  /**
   * @param {TalkItem & {kind: "sent"}} item
   * @param {unknown} data the data of its entry
   */
  function sentView(item, data) {
    edited.delete(item.key);
    const {message, isInput, isEdited, turn} = item;
    const others = message.extra?.content;
    const body = el("div", {class: "bubble"}, longText(message.text, {most: LONG_MESSAGE}),
      others ? dataView(others) : null);
    const place = el("div", {}, body);
    const edit = () => {
      edited.set(item.key, data); // a run that another window starts leaves the form
      const form = editForm(item, () => {
        edited.delete(item.key);
        place.replaceChildren(body);
        if (bar) head.prepend(bar);
        acts[0]?.focus();
      });
      place.replaceChildren(form);
      bar?.remove(); // a run of another window may make them invalid
      form.querySelector("textarea")?.focus();
    };
    const acts = isInput && canRun() ? [
      actButton("Edit", "send another message instead", edit),
      actButton("Regenerate", AGAIN_TIP, () => runs.restart(turn)),
      actButton("Branch", BRANCH_TIP, () => runs.fork(runs.startOf(turn))),
    ] : [];
    const name = message.name ? `User ${shortText(message.name, 40)}` : "User";
    const bar = actsView(acts);
    const head = el("header", {class: "who"}, bar, el("b", {}, name),
      isEdited ? el("span", {class: "quiet"}, "edited") : null,
      isInput ? null : el("span", {class: "quiet"}, "added by a rerun"));
    return el("article", {class: "talk-item sent"}, head, place);
  }

  /**
   * @param {TalkItem & {kind: "sent"}} item
   * @param {() => void} close
   */
  function editForm({message, turn}, close) {
    const id = newId("edit");
    const text = el("textarea", {id, rows: 3, value: message.text});
    const fault = refusal();
    const replaces = message.id ?? "";
    /** @param {(typed: string) => Promise<boolean>} start */
    const send = async (start) => {
      fault.say("");
      if (!text.value.trim()) return fault.say("The message is empty. Type a message.");
      if (await start(text.value)) close();
      return undefined;
    };
    const here = () => send((typed) => runs.restart(turn, {text: typed, replaces}, fault.say));
    const beside = () => (
      send((typed) => runs.fork(runs.startOf(turn), {text: typed, replaces}, fault.say))
    );
    const form = el("form", {class: "edit", novalidate: true},
      el("label", {for: id}, "Message"), text,
      el("p", {class: "quiet"}, "The turn runs again. The later messages stay as an older version."),
      fault.node,
      el("div", {class: "row"}, el("button", {class: "primary"}, "Send"),
        actionButton("Send on new thread", beside), actionButton("Cancel", close)));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      here();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
    });
    return form;
  }

  // events

  /** @param {TalkItem & {kind: "event"}} item */
  function eventView({event, calls, isFirst, isLast}) {
    const look = lookOf(event);
    const asked = askedAt(event);
    const isOpen = asked?.state === "pending"; // its card has all
    const acts = isLast && look !== "sent" && !isOpen ? actsOf(event) : null;
    const who = isFirst && !isOpen ? whoView(event.agent_name, event.address) : null;
    if (who && acts) who.append(acts);
    const bodies = {
      said: () => messageNodes(/** @type {MessageData} */ (event.output?.message), calls),
      bad: () => [errorView(event.error ?? "")],
      asks: () => questionNodes(/** @type {Question} */ (event.action?.interrupted), asked),
      note: () => [noteView(event)],
    };
    const body = bodies[look === "sent" ? "said" : look]();
    return el("article", {class: `talk-item ${look}`}, who, ...body, who ? null : acts);
  }

  /** @param {AgentEvent} event */
  function actsOf({step, address, turn}) {
    const {threadId, line} = state;
    if (!step || !threadId) return null;
    const again = canRun() ? [
      actButton("Regenerate", AGAIN_TIP, () => runs.rewind(step)),
      actButton("Branch", BRANCH_TIP, () => runs.fork({at: step})),
    ] : [];
    const details = actButton("Details", "open the activation", () => {
      lookAt(store, {threadId, line, address, turn: turn ?? 0});
      details.dispatchEvent(new CustomEvent("showtab", {bubbles: true, detail: "detail"}));
    });
    return actsView([...again, details]);
  }

  /** Return the state of the question of an event; null for other events.
   *
   * @param {AgentEvent} event
   * @returns {Asked | null}
   */
  function askedAt({action}) {
    const id = action?.interrupted?.id;
    if (!id) return null;
    const {thread, line, talk} = state;
    const now = line === null ? thread : null;
    if (now?.pending.some((each) => each.id === id)) return {state: "pending"};
    const stored = now?.answered.find((each) => each.question.id === id);
    if (stored) return {state: "stored", answer: stored.answer, isAnswered: true};
    const {answer, is_answered: isAnswered, is_late: isLate} = talk?.asked.get(id) ?? {};
    return {state: "over", answer, isAnswered, isLate};
  }

  /**
   * @param {Question} question
   * @param {Asked | null} asked
   */
  function questionNodes(question, asked) {
    if (!asked || asked.state === "pending") {
      return [el("div", {class: "slot questions", "data-question": question.id})];
    }
    const {answer, isAnswered = false, isLate = false} = asked;
    if (isAnswered && asked.state === "over" && kindAt(question.address) === "human") {
      const text = longText(questionText(question.value), {most: LONG_MESSAGE});
      return [el("div", {class: "asked"}, text)]; // the answer follows as a message
    }
    const given = {question, answer, is_answered: isAnswered, is_late: isLate};
    return [
      questionView(given),
      asked.state === "stored" ? el("p", {class: "quiet"}, STORED) : null,
    ];
  }

  return {
    entryOf,
    speech,
    /**
     * @param {State} _
     * @param {Changed} changed
     */
    update({about}, changed) {
      if (changed.has("about") && about) kinds = kindsOf(about.tree);
    },
  };
}

/** Make the calls that run again from an item; each resolves to whether the run has started.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {Say} say
 */
function makeRuns(store, backend, say) {
  const {state} = store;

  /**
   * @param {(threadId: string) => Promise<unknown>} call
   * @param {Say} tell
   */
  async function run(call, tell) {
    say("");
    if (!state.threadId) return false;
    try {
      await call(state.threadId);
      return true;
    } catch (error) {
      tell(error.message);
      return false;
    }
  }

  return {
    /** @param {string} at */
    rewind: (at) => run((id) => backend.call("rewind", {thread_id: id, at}), say),
    /**
     * @param {number} turn
     * @param {{text?: string, replaces?: string}} [edited]
     * @param {Say} [tell]
     */
    restart: (turn, edited = {}, tell = say) => (
      run((id) => backend.call("restart", {thread_id: id, turn, ...edited}), tell)
    ),
    /** Return the first step of a turn.
     *
     * @param {number} turn
     */
    startOf: (turn) => ({at: state.about?.tree.name ?? "", turn}),
    /**
     * Run again on a new thread, and open it.
     *
     * @param {{at: string, turn?: number}} point
     * @param {Changes} [changes]
     * @param {Say} [tell]
     */
    fork: (point, changes = {}, tell = say) => run(async (id) => {
      const name = freeVariant(store, id);
      const {threads} = await backend.call("fork", {thread_id: id, ...point, variants: {[name]: changes}});
      store.refreshThreads();
      store.open(threads[name]);
    }, tell),
  };
}

/** Return how an event looks: a message of a person or an agent, a question, an error, or a note.
 *
 * @param {AgentEvent} event
 */
function lookOf({output, error, action}) {
  if (output?.message) return output.message.type === "human" ? "sent" : "said";
  if (error !== null) return "bad";
  return action?.interrupted ? "asks" : "note";
}

/**
 * @param {string} label
 * @param {string} tip
 * @param {() => unknown} act
 */
function actButton(label, tip, act) {
  return actionButton(label, act, {class: "act", title: tip, "aria-label": `${label}: ${tip}`});
}

/** @param {HTMLElement[]} acts */
function actsView(acts) {
  return acts.length ? el("div", {class: "acts"}, ...acts) : null;
}

/**
 * @param {number} turn
 * @param {number | null} time
 */
function turnView(turn, time) {
  return el("h2", {class: "talk-turn"}, `Turn ${turn + 1}`,
    time ? el("time", {class: "quiet"}, timeText(time)) : null);
}

/**
 * @param {MessageData} message
 * @param {TalkCall[]} calls
 */
function messageNodes(message, calls) {
  const text = textOf(message);
  if (message.type === "tool") { // its call is not shown, because it is on an earlier part
    const title = [el("b", {}, shortText(message.data.name ?? "tool", 60)), " result"];
    return [foldable(title, () => dataView(text), {class: "tool-call"})];
  }
  const blocks = blocksOf(message);
  return [
    text ? el("div", {class: "bubble"}, longText(text, {most: LONG_MESSAGE})) : null,
    blocks.length ? foldable("More", () => dataView(blocks), {class: "tool-call"}) : null,
    ...calls.map(callNode),
  ];
}

/** @param {TalkCall} each */
function callNode({call, result}) {
  const message = result?.output?.message;
  const isRejected = message?.data.additional_kwargs?.lc_data?.decision === "reject";
  const ended = message?.data.status === "error" ? "failed" : "done";
  const state = isRejected ? "rejected" : result ? ended : "waits";
  const word = {waits: "no result yet", failed: "failed", rejected: "rejected", done: ""}[state];
  const body = () => el("div", {class: "inside"},
    el("span", {class: "quiet"}, "Arguments"), dataView(call.args),
    message ? el("span", {class: "quiet"}, "Result") : null,
    message ? dataView(textOf(message)) : null);
  const title = [
    icon("tool"), el("b", {}, shortText(call.name, 60)),
    el("span", {class: "gist"}, shortText(JSON.stringify(call.args), 80)),
    word ? el("span", {class: "pill", "data-state": state}, word) : null,
  ];
  return foldable(title, body, {class: "tool-call", "data-state": state});
}

/** @param {AgentEvent} event */
function noteView({kind, action, output}) {
  const word = NOTES[kind] ?? kind;
  const {transfer_to: target, chosen, values, default: late, custom} = action ?? {};
  if (values) return valuesView(word, values);
  const data = late?.answer ?? output?.custom ?? custom;
  if (data !== undefined && data !== null) return foldable(word, () => dataView(data));
  return el("p", {}, `${word} `, el("b", {}, shortText(target ?? chosen ?? "", 80)));
}

/**
 * @param {string} word
 * @param {Values} values
 */
function valuesView(word, values) {
  const [first, ...more] = Object.values(values);
  const names = el("b", {}, shortText(Object.keys(values).join(", "), 120));
  const gist = more.length ? "" : ` ${shortText(JSON.stringify(first), 60)}`;
  return foldable([`${word} `, names, gist], () => dataView(values));
}

/** @param {Values} values */
function setView(values) {
  return el("article", {class: "talk-item note set"}, valuesView("User set", values));
}

/** @param {TreeNode} tree */
function kindsOf(tree) {
  const places = placesOf(tree);
  return new Map([...pathsOf(tree)].map(([path, id]) => [path, places.get(id)?.node.kind ?? "node"]));
}
