// Opens the window in a cell of a notebook: its calls go to the kernel, as messages of a widget.

import {NEWS, errorOf} from "./backend.js";
import {mount} from "./window.js";

/** @import {Backend, Hear, Heard} from "./page.d.ts" */
/** @import {News, Refusal} from "./shapes.d.ts" */

const CELL_BEAT = 1_500; // milliseconds, after which what nobody has answered is sent again
const CELL_TRIES = 3; // how often
const CELL_BEATS = 10; // after so many all that is followed is asked for again, or the kernel ends it
const CELL_LONG = 20; // beats
const CELL_BUSY = "The kernel is busy. It hears this when it is free.";
const CELL_SILENT = "The kernel does not answer. If it is not busy, run the cell again.";
const CELL_ENDED = "The kernel of this cell has ended, or was started again: run the cell again.";

/**
 * What anywidget passes: the model of the widget, and the element to fill.
 *
 * @typedef {{
 *   get: (name: string) => any, send: (message: object) => void,
 *   on: (name: string, hear: Listener) => void, off: (name: string, hear: Listener) => void,
 * }} Model
 * @typedef {(message: any) => void} Listener
 */

/**
 * What the kernel sends: answers of calls, by their numbers, and news, by those of the followers.
 *
 * @typedef {{call: number, answer?: any} & Partial<Refusal>} Answer
 * @typedef {{follow: number, kind: keyof Heard | "quiet", data: any}} Told
 * @typedef {{view: string} & (Answer | Told)} FromKernel
 */

/**
 * What waits for an answer, and what is followed; `message` is what was sent to the kernel for it.
 *
 * @typedef {{
 *   resolve: (answer: any) => void, reject: (error: Error) => void, message: object, tries: number,
 * }} WaitingCall
 * @typedef {{hear: Hear, isNew: boolean, message: {since: string | null}, tries: number}} Followed
 */

/**
 * Fills a cell. It may be called several times for one widget; each time is a view of its own.
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
 * `tell` is called with a text while the kernel keeps people waiting, and with "" when it does not.
 *
 * @param {Model} model
 * @param {(text: string) => void} [tell]
 * @returns {{backend: Backend, close: () => void}}
 */
export function cellBackend(model, tell = () => {}) {
  const view = crypto.randomUUID?.() ?? String(Math.random());
  /** @type {Map<number, WaitingCall>} */
  const calls = new Map(); // by number
  /** @type {Map<number, Followed>} */
  const follows = new Map(); // by number
  let last = 0;
  let beats = 0;
  let hasEnded = false; // the kernel, or what answers there

  /** @param {object} message */
  function send(message) {
    try {
      model.send({view, ...message});
    } catch {
      lose(); // there is no connection
    }
  }

  /** @param {FromKernel} message */
  function hear(message) {
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
    if (!calls.size) tell("");
    if (refusal.error === undefined) waiting.resolve(data);
    else waiting.reject(errorOf(refusal));
  }

  /**
   * @param {Followed} followed
   * @param {Told} news
   */
  function news(followed, {kind, data}) {
    if (kind === "lost") {
      followed.isNew = true;
      return followed.hear("lost", data);
    }
    if (followed.isNew) followed.hear("found");
    followed.isNew = false;
    if (kind === "timeline") followed.message.since = data.upto || followed.message.since;
    if (isNews(kind)) followed.hear(kind, data);
    return undefined;
  }

  function lose() {
    hasEnded = true;
    for (const followed of follows.values()) followed.hear("lost", {text: CELL_ENDED, isForGood: false});
    for (const waiting of calls.values()) waiting.reject(ended());
    calls.clear();
    tell("");
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
      if (isTime) send({call: ++last, name: "about", arguments: {}}); // any answer will do
      return;
    }
    for (const call of calls.values()) {
      if (++call.tries <= CELL_TRIES) send(call.message);
      if (call.tries > 1) tell(call.tries > CELL_LONG ? CELL_SILENT : CELL_BUSY);
    }
    for (const followed of follows.values()) {
      const isAgain = followed.isNew && ++followed.tries <= CELL_TRIES;
      if (isAgain || isTime) send(followed.message);
    }
  }

  const timer = setInterval(beat, CELL_BEAT);
  /** @type {Record<string, Listener>} */
  const heard = {"msg:custom": hear, "comm:close": lose, comm_live_update: lose, destroy: lose};
  for (const [name, listener] of Object.entries(heard)) model.on(name, listener);

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
      follows.set(number, {hear: listener, isNew: true, message, tries: 0});
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
    for (const [name, listener] of Object.entries(heard)) model.off(name, listener);
  }

  return {backend, close};
}

/**
 * Returns whether a kind is one that the window knows; another one may come from a newer kernel.
 *
 * @param {string} kind
 * @returns {kind is keyof News}
 */
function isNews(kind) {
  return NEWS.some((each) => each === kind);
}

/** Keeps keys from the notebook, whose keys cut cells and the like.
 *
 * @param {HTMLElement} el
 */
function keepKeys(el) {
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab
  for (const name of ["keydown", "keypress", "keyup"]) {
    el.addEventListener(name, (event) => event.stopPropagation());
  }
}

/** Makes the window dark or light as the notebook around is; returns a function that ends it.
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
    // JupyterLab hides everything for a moment: then nothing can be drawn
    for (const wait of [0, 400]) setTimeout(() => root.dispatchEvent(new Event("schemechange")), wait);
  }
  const observer = new MutationObserver(paint);
  observer.observe(document.body, {attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"]});
  paint();
  return () => observer.disconnect();
}
