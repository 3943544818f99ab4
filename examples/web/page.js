// The page: the live events of a thread, and the actions on it.

import {el} from "./elements.js";
import {questionForm, questionText} from "./forms.js";

/** @import {Question} from "../../agentgraph/window/page/shapes.d.ts" */

/**
 * An event of `Runner.to_sse`, with the fields that the page shows.
 *
 * @typedef {{type: string, data: {[field: string]: any}}} Message
 * @typedef {{
 *   id: string, agent_name: string, address: string, run_path: [name: string, iteration?: number][],
 *   turn?: number, step?: string, cursor?: string, error: string, output: {message: Message, custom: any},
 *   action: {[kind: string]: any},
 * }} AgentEvent
 * @typedef {HTMLElement & {question?: Question}} Entry
 */

const RETRY = 1000; // milliseconds until a rejected connection is retried

/** @type {(id: string) => any} */
const $ = (id) => document.getElementById(id);
/** @type {HTMLElement} */
const log = $("log");
const address = new URL(location.href);
if (!address.searchParams.get("thread")) {
  address.searchParams.set("thread", crypto.randomUUID().slice(0, 8));
  history.replaceState(null, "", address);
}
const thread = address.searchParams.get("thread") ?? "";

/** @type {{status: string, turns: string[][], queued: string[], pending: string[]}} */
let state = {status: "new", turns: [], queued: [], pending: []};
/** @type {EventSource | null} */
let source = null; // the EventSource; null when disconnected by the user
let cursor = ""; // of the last event
let retrying = 0;
let editing = -1; // the turn whose message is edited, and that runs again; -1 for a new turn

// calls

/**
 * @param {string} path
 * @param {object} [body]
 */
async function call(path, body) {
  const url = `${path}?${new URLSearchParams({thread})}`;
  const headers = {"Content-Type": "application/json"};
  const post = {method: "POST", headers, body: JSON.stringify(body)};
  let reply;
  try {
    reply = await fetch(url, body === undefined ? {} : post);
  } catch {
    throw new Error("The server does not answer.");
  }
  const data = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(`${reply.status} ${data.error}: ${data.detail}`);
  return data;
}

/** Post an action; show its error there, or at the foot of the page.
 *
 * @param {string} path
 * @param {object} body
 * @param {(text: string) => void} [sayWhy]
 */
async function want(path, body, sayWhy = warn) {
  try {
    await call(path, body);
  } catch (error) {
    sayWhy(error.message);
    return false;
  }
  warn("");
  await refresh();
  if (source && $("connection").textContent !== "live") connect();
  return true;
}

/** @param {string} text */
function warn(text) {
  $("alert").textContent = text;
  $("alert").hidden = !text;
}

/** Read the status of the thread. */
async function refresh() {
  try {
    state = await call("/thread");
  } catch (error) {
    if (source) warn(error.message);
    return;
  }
  showState();
}

function showState() {
  const wasAtFoot = isAtFoot();
  $("status").textContent = state.status;
  $("status").dataset.status = state.status;
  $("resume").hidden = !["stopped", "failed"].includes(state.status);
  $("stop").disabled = $("steer").disabled = state.status === "done" || state.status === "paused";
  for (const section of log.querySelectorAll("section[data-turn]:not(:has(.entry))")) section.remove();
  state.turns.forEach((texts, number) => showUser(turn(number), texts));
  $("send").textContent = editing < 0 ? "Send message" : "Run again from here";
  log.querySelector(".queued")?.remove();
  if (state.queued.length) {
    const waiting = () => el("small", {}, "queued");
    const said = state.queued.map((text) => el("p", {class: "user waiting"}, text, waiting()));
    log.append(el("section", {class: "queued"}, ...said));
  }
  for (const card of entries(".entry[data-kind=interrupted]")) showQuestion(card);
  if (wasAtFoot) scroll();
}

// the log

/**
 * @param {number} number
 * @returns {HTMLElement}
 */
function turn(number) {
  const found = log.querySelector(`section[data-turn="${Number(number)}"]`);
  if (found) return /** @type {HTMLElement} */ (found);
  const made = el("section", {"data-turn": Number(number)}, el("div", {class: "users"}));
  log.insertBefore(made, log.querySelector(".queued"));
  return made;
}

/**
 * @param {HTMLElement} section
 * @param {string[]} texts
 */
function showUser(section, texts) {
  const users = part(section, ".users");
  const shown = JSON.stringify(texts);
  if (users.dataset.shown === shown) return; // a button that has the focus keeps it
  users.dataset.shown = shown;
  const said = texts.map((text) => el("p", {class: "user"}, text));
  const number = Number(section.dataset.turn);
  const again = el("button", {class: "edit", type: "button"}, "Edit message");
  again.addEventListener("click", () => {
    editing = editing === number ? -1 : number;
    $("text").value = editing < 0 ? "" : texts.at(-1);
    $("text").focus();
    showState();
  });
  users.replaceChildren(...said, again);
}

/**
 * @param {AgentEvent} event
 * @param {string} kind
 * @returns {Entry}
 */
function newEntry(event, kind) {
  const iteration = event.run_path.at(-1)?.[1];
  const head = el("div", {class: "head"}, el("b", {}, event.agent_name));
  if (Number.isInteger(iteration)) head.append(el("span", {class: "chip"}, `iteration ${iteration}`));
  head.append(el("code", {class: "address"}, event.address));
  const entry = el("article", {class: "entry"}, head, el("div", {class: "body"}));
  Object.assign(entry.dataset, {kind, id: event.id, step: event.step ?? "", address: event.address});
  return entry;
}

/**
 * Return the part of an element that matches a selector.
 *
 * @param {HTMLElement} node
 * @param {string} selector
 * @returns {HTMLElement}
 */
function part(node, selector) {
  return /** @type {HTMLElement} */ (node.querySelector(selector));
}

/**
 * Return the elements of the log that match a selector.
 *
 * @param {string} selector
 * @returns {Entry[]}
 */
function entries(selector) {
  return [...log.querySelectorAll(selector)].map((entry) => /** @type {Entry} */ (entry));
}

/** Put an entry after the complete ones, in the order of arrival.
 *
 * @param {Entry} entry
 * @param {AgentEvent} event
 */
function put(entry, event) {
  const section = turn(event.turn ?? 0);
  const isPartial = entry.classList.contains("partial");
  section.insertBefore(entry, isPartial ? null : section.querySelector(".partial"));
}

/**
 * @param {string} id
 * @param {string} [selector]
 * @returns {Entry[]}
 */
function entriesOf(id, selector = ".entry") {
  return entries(selector).filter((entry) => entry.dataset.id === id);
}

/** @type {Record<string, (event: AgentEvent) => void>} */
const shows = {
  partial(event) {
    let [entry] = entriesOf(event.id, ".partial");
    if (!entry) {
      entry = newEntry(event, "message");
      entry.classList.add("partial");
      entry.setAttribute("aria-busy", "true");
      put(entry, event);
    }
    part(entry, ".body").append(textOf(event.output.message));
  },

  message(event) {
    const message = event.output.message;
    const entry = entriesOf(event.id, ".partial")[0] ?? newEntry(event, "message");
    entry.classList.remove("partial");
    entry.removeAttribute("aria-busy");
    const isSteered = Boolean(message.data.additional_kwargs?.steered);
    entry.classList.toggle("steered", isSteered);
    if (isSteered) part(entry, "b").textContent = `you, to ${event.agent_name}`;
    entry.dataset.speaker = message.type;
    const text = textOf(message);
    entry.dataset.text = text;
    const body = part(entry, ".body");
    body.replaceChildren();
    if (message.type === "tool") body.append(el("small", {}, `result of ${message.data.name}`));
    if (text) body.append(el("p", {}, text));
    for (const {name, args} of message.data.tool_calls ?? []) {
      const made = el("code", {}, `${name}(${JSON.stringify(args)})`);
      body.append(el("p", {class: "call"}, "calls ", made));
    }
    put(entry, event);
  },

  interrupted(event) {
    const entry = newEntry(event, "interrupted");
    entry.question = event.action.interrupted;
    const text = questionText(event.action.interrupted.value);
    entry.dataset.text = "";
    const kind = text.length < 80 ? "question short" : "question";
    part(entry, ".body").append(el("p", {class: kind}, text), el("div", {class: "answer"}));
    put(entry, event);
    showQuestion(entry);
  },

  discarded(event) {
    const gone = new Set(event.action.discarded);
    for (const entry of entries(".entry")) {
      if (gone.has(entry.dataset.id) || gone.has(entry.dataset.step)) entry.remove();
    }
    refreshSoon(); // a turn that runs again may have another message, and none after it
  },

  error(event) {
    line(event, "error", event.error);
  },

  custom(event) {
    line(event, "custom", JSON.stringify(event.output.custom));
  },
};

/**
 * @param {AgentEvent} event
 * @param {string} kind
 * @param {string} text
 */
function line(event, kind, text) {
  const entry = newEntry(event, kind);
  entry.dataset.text = "";
  part(entry, ".body").append(el("p", {}, text));
  put(entry, event);
}

/** @type {Record<string, (action: AgentEvent["action"]) => string>} */
const acts = {
  exit: () => "ends the run",
  break_loop: () => "ends the loop",
  transfer_to: (action) => `transfers to ${action.transfer_to}`,
  chosen: (action) => `chooses ${action.chosen}`,
  values: (action) => `sets ${Object.keys(action.values).join(", ")}`,
  action: (action) => JSON.stringify(action.custom),
};

/**
 * @param {Message} message
 * @returns {string}
 */
function textOf(message) {
  const content = message.data.content;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content.map((each) => (typeof each === "string" ? each : each.text ?? "")).join("");
}

/** Show the form of an open question.
 *
 * @param {Entry} entry
 */
function showQuestion(entry) {
  const place = part(entry, ".answer");
  const {id = ""} = entry.dataset;
  const isOpen = state.pending.includes(id); // also while other branches run
  entry.classList.toggle("open", isOpen);
  if (!isOpen) return place.replaceChildren();
  if (place.firstChild || !entry.question) return undefined; // a typed text stays
  const inner = questionForm(entry.question);
  const fault = el("p", {class: "fault", role: "alert", hidden: true});
  const button = el("button", {class: "primary"}, "Send answer");
  const form = el("form", {novalidate: true}, inner.node, fault, button);
  /** @param {string} text */
  const sayWhy = (text) => {
    fault.textContent = text;
    fault.hidden = false;
    fault.scrollIntoView({block: "nearest"});
  };
  form.addEventListener("submit", (submitted) => {
    submitted.preventDefault();
    let answer;
    try {
      answer = inner.read();
    } catch (error) {
      return sayWhy(error.message);
    }
    return want("/answers", {[id]: answer ?? null}, sayWhy);
  });
  place.append(form);
  return undefined;
}

/**
 * @param {string} kind
 * @param {string} data
 */
function receive(kind, data) {
  const event = JSON.parse(data);
  showConnection("live");
  const wasAtFoot = isAtFoot();
  cursor = event.cursor ?? cursor;
  const isNew = state.status !== "running" || (event.turn ?? 0) >= state.turns.length;
  const mayClose = log.querySelector(".entry.open") !== null; // another tab may have answered
  if (isNew || mayClose || kind === "interrupted") refreshSoon();
  if (kind === "interrupted") setTimeout(lookAgain, 500, event.action.interrupted.id);
  if (kind in acts) line(event, kind, acts[kind](event.action));
  else shows[kind](event);
  if (event.output?.message?.data.additional_kwargs?.steered) refreshSoon();
  if (wasAtFoot) scroll();
}

/** Read the status once more if a question of a branch was not saved yet when its event came.
 *
 * @param {string} id
 */
function lookAgain(id) {
  if (state.status === "running" && !state.pending.includes(id)) refresh();
}

let soon = 0;

function refreshSoon() {
  soon ||= setTimeout(() => {
    soon = 0;
    refresh();
  }, 50);
}

function isAtFoot() {
  return log.scrollTop + log.clientHeight >= log.scrollHeight - 80;
}

function scroll() {
  log.scrollTop = log.scrollHeight;
}

// the connection

/** Follow the thread after the last event; after a cut the browser reconnects by itself. */
function connect() {
  disconnect();
  source = new EventSource(`/events?${new URLSearchParams({thread, after: cursor})}`);
  let isOver = false; // whether the stream has ended; then the connection closes, and the browser reconnects
  source.addEventListener("open", () => {
    if ($("connection").textContent === "connecting") showConnection("live");
    // missed chunks are not sent again; the complete message is
    for (const entry of log.querySelectorAll(".partial .body")) entry.append(" … ");
  });
  for (const kind of [...Object.keys(shows), ...Object.keys(acts)]) {
    source.addEventListener(kind, (message) => {
      if (message.data !== undefined) receive(kind, message.data); // the browser itself also sends "error"
    });
  }
  source.addEventListener("end", (message) => {
    const {status, error} = JSON.parse(message.data);
    isOver = true;
    showConnection("idle");
    if (error) warn(error);
    if (status !== state.status) refreshSoon();
  });
  source.addEventListener("error", (/** @type {MessageEvent | Event} */ lost) => {
    if ("data" in lost || !source || lost.target !== source) return;
    if (!isOver) showConnection(state.status === "new" ? "idle" : "connecting");
    isOver = false;
    if (source.readyState === EventSource.CLOSED) retrying = setTimeout(connect, RETRY); // 404, 503
  });
}

function disconnect() {
  clearTimeout(retrying);
  source?.close();
  source = null;
}

/** @param {string} text */
function showConnection(text) {
  $("connection").textContent = text;
  $("connect").textContent = text === "disconnected" ? "Connect" : "Disconnect";
}

// controls

$("thread").value = thread;
$("open").addEventListener("submit", (/** @type {Event} */ submitted) => {
  submitted.preventDefault();
  location.search = String(new URLSearchParams({thread: $("thread").value}));
});
$("connect").addEventListener("click", () => {
  if (source) {
    disconnect();
    showConnection("disconnected");
  } else {
    showConnection("connecting");
    refresh().then(connect);
  }
});

/**
 * @param {string} path
 * @param {object} body
 */
async function say(path, body) {
  if (!(await want(path, {text: $("text").value, ...body}))) return;
  $("text").value = "";
  editing = -1;
  showState();
}

$("composer").addEventListener("submit", (/** @type {Event} */ submitted) => {
  submitted.preventDefault();
  say("/messages", editing < 0 ? {while_running: $("busy").value} : {turn: editing});
});
$("text").addEventListener("keydown", (/** @type {KeyboardEvent} */ key) => {
  if (key.key !== "Enter" || key.shiftKey || key.isComposing) return;
  key.preventDefault();
  $("composer").requestSubmit();
});
$("steer").addEventListener("click", () => say("/steer", {}));
$("stop").addEventListener("click", () => want("/stop", {}));
$("resume").addEventListener("click", () => want("/resume", {}));

refresh().then(connect);
