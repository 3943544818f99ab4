// Opens the window in a notebook cell: its calls go to the kernel as messages of a widget.

import {NEWS, errorOf} from "./backend.js";
import {mount} from "./window.js";

/** @import {Backend, Receive, Received} from "./page.d.ts" */
/** @import {News, Refusal} from "./shapes.d.ts" */

const CELL_BEAT = 1_500; // milliseconds until a call without an answer is sent again
const CELL_TRIES = 3; // maximum number of sends
const CELL_BEATS = 10; // beats between renewals of followers, which the kernel ends otherwise
const CELL_LONG = 20; // beats until the kernel counts as silent
const CELL_BUSY = "The kernel is busy. It handles this call when it is free.";
const CELL_SILENT = "The kernel does not answer. If it is not busy, rerun the cell.";
const CELL_ENDED = "The kernel of this cell has ended or was restarted. Rerun the cell.";

/**
 * The arguments from anywidget: the model of the widget, and the element to fill.
 *
 * @typedef {{
 *   get: (name: string) => any, send: (message: object) => void,
 *   on: (name: string, receive: Listener) => void, off: (name: string, receive: Listener) => void,
 * }} Model
 * @typedef {(message: any) => void} Listener
 */

/**
 * Messages from the kernel: answers by the numbers of calls, updates by the numbers of followers.
 *
 * @typedef {{call: number, answer?: any} & Partial<Refusal>} Answer
 * @typedef {{follow: number, kind: keyof Received | "quiet", data: any}} CellUpdate
 * @typedef {{view: string} & (Answer | CellUpdate)} FromKernel
 */

/**
 * The calls without an answer, and the followers; `message` is the message that was sent for each.
 *
 * @typedef {{
 *   resolve: (answer: any) => void, reject: (error: Error) => void, message: object, tries: number,
 * }} WaitingCall
 * @typedef {{receive: Receive, isNew: boolean, message: {since: string | null}, tries: number}} Followed
 */

/**
 * Fills a cell. One widget may have several views; each call makes a view.
 * Returns a function that ends it.
 *
 * @param {{model: Model, el: HTMLElement}} widget
 */
export function renderCell({model, el}) {
  const waits = document.createElement("p");
  waits.className = "agentgraph-cell-waits";
  waits.setAttribute("role", "status");
  const root = document.createElement("div");
  root.style.height = `${model.get("height")}px`;
  el.classList.add("agentgraph-cell");
  el.append(root, waits);
  keepKeys(el);
  const leaveTheme = followTheme(el, root);
  const {backend, close} = cellBackend(model, (text) => {
    waits.textContent = text;
  });
  const mounted = mount(root, backend, {thread: model.get("thread_id")});
  return async () => {
    close();
    leaveTheme();
    el.replaceChildren();
    (await mounted).close();
  };
}

/**
 * The backend of a cell: {backend: {call, follow}, close}; see backend.js.
 * `showWait` receives a text while the kernel delays an answer, and "" otherwise.
 *
 * @param {Model} model
 * @param {(text: string) => void} [showWait]
 * @returns {{backend: Backend, close: () => void}}
 */
export function cellBackend(model, showWait = () => {}) {
  const view = crypto.randomUUID?.() ?? String(Math.random());
  /** @type {Map<number, WaitingCall>} */
  const calls = new Map(); // by number
  /** @type {Map<number, Followed>} */
  const follows = new Map(); // by number
  let last = 0;
  let beats = 0;
  let hasEnded = false; // whether the kernel or its widget has ended

  /** @param {object} message */
  function send(message) {
    try {
      model.send({view, ...message});
    } catch {
      lose(); // the connection is lost
    }
  }

  /** @param {FromKernel} message */
  function receive(message) {
    if (message.view !== view) return undefined;
    if (hasEnded) find();
    if ("call" in message) return answer(message);
    const followed = follows.get(message.follow);
    return followed && news(followed, message);
  }

  /** @param {Answer} answer */
  function answer({call, answer: data, ...refusal}) {
    const waiting = calls.get(call);
    if (!waiting) return;
    calls.delete(call);
    if (!calls.size) showWait("");
    if (refusal.error === undefined) waiting.resolve(data);
    else waiting.reject(errorOf(refusal));
  }

  /**
   * @param {Followed} followed
   * @param {CellUpdate} news
   */
  function news(followed, {kind, data}) {
    if (kind === "lost") {
      followed.isNew = true;
      return followed.receive("lost", data);
    }
    if (followed.isNew) followed.receive("found");
    followed.isNew = false;
    if (kind === "timeline") followed.message.since = data.upto || followed.message.since;
    if (isNews(kind)) followed.receive(kind, data);
    return undefined;
  }

  function lose() {
    hasEnded = true;
    const data = {text: CELL_ENDED, isForGood: false};
    for (const followed of follows.values()) followed.receive("lost", data);
    for (const waiting of calls.values()) waiting.reject(ended());
    calls.clear();
    showWait("");
  }

  function find() {
    hasEnded = false;
    for (const followed of follows.values()) {
      followed.isNew = true;
      followed.tries = 0;
      send(followed.message);
    }
  }

  function ended() {
    return Object.assign(new Error(CELL_ENDED), {kind: "lost"});
  }

  function beat() {
    const isTime = ++beats % CELL_BEATS === 0;
    if (hasEnded) {
      if (isTime) send({call: ++last, name: "about", arguments: {}}); // any answer ends the wait
      return;
    }
    for (const call of calls.values()) {
      if (++call.tries <= CELL_TRIES) send(call.message);
      if (call.tries > 1) showWait(call.tries > CELL_LONG ? CELL_SILENT : CELL_BUSY);
    }
    for (const followed of follows.values()) {
      const isAgain = followed.isNew && ++followed.tries <= CELL_TRIES;
      if (isAgain || isTime) send(followed.message);
    }
  }

  const timer = setInterval(beat, CELL_BEAT);
  /** @type {Record<string, Listener>} */
  const listeners = {"msg:custom": receive, "comm:close": lose, comm_live_update: lose, destroy: lose};
  for (const [name, listener] of Object.entries(listeners)) model.on(name, listener);

  /** @type {Backend} */
  const backend = {
    call(name, args = {}) {
      if (hasEnded) return Promise.reject(ended());
      const number = ++last;
      const message = {call: number, name, arguments: args};
      return new Promise((resolve, reject) => {
        calls.set(number, {resolve, reject, message, tries: 0});
        send(message);
      });
    },

    follow(thread, since, listener) {
      const number = ++last;
      const message = {follow: number, thread, since: since ?? null};
      follows.set(number, {receive: listener, isNew: true, message, tries: 0});
      send(message);
      return () => {
        if (follows.delete(number)) send({unfollow: number});
      };
    },
  };

  function close() {
    clearInterval(timer);
    for (const number of follows.keys()) send({unfollow: number});
    follows.clear();
    for (const [name, listener] of Object.entries(listeners)) model.off(name, listener);
  }

  return {backend, close};
}

/**
 * Returns whether the window knows a kind of update; a newer kernel may send others.
 *
 * @param {string} kind
 * @returns {kind is keyof News}
 */
function isNews(kind) {
  return NEWS.some((each) => each === kind);
}

/** Hides keys from the notebook, whose shortcuts cut cells, for example.
 *
 * @param {HTMLElement} el
 */
function keepKeys(el) {
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab
  for (const name of ["keydown", "keypress", "keyup"]) {
    el.addEventListener(name, (event) => event.stopPropagation());
  }
}

/** Makes the window dark or light, as the notebook is; returns a function that ends it.
 *
 * @param {HTMLElement} el
 * @param {HTMLElement} root
 */
function followTheme(el, root) {
  const {dataset} = document.body;
  function paint() {
    const {jpThemeLight, vscodeThemeKind = ""} = dataset; // JupyterLab, Visual Studio Code
    if (jpThemeLight) el.dataset.scheme = jpThemeLight === "true" ? "light" : "dark";
    else if (vscodeThemeKind) el.dataset.scheme = /light/.test(vscodeThemeKind) ? "light" : "dark";
    // JupyterLab hides everything briefly, and a hidden canvas cannot be drawn
    for (const wait of [0, 400]) setTimeout(() => root.dispatchEvent(new Event("schemechange")), wait);
  }
  const observer = new MutationObserver(paint);
  observer.observe(document.body, {attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"]});
  paint();
  return () => observer.disconnect();
}
