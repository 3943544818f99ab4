// Opens the window in a cell of a notebook: its calls go to the kernel, as messages of a widget.

import {mount} from "./window.js";

const CELL_BEAT = 1_500; // milliseconds, after which what nobody has answered is sent again
const CELL_TRIES = 3; // how often
const CELL_BEATS = 10; // after so many all that is followed is asked for again, or the kernel ends it
const CELL_LONG = 20; // beats
const CELL_BUSY = "The kernel is busy. It hears this when it is free.";
const CELL_SILENT = "The kernel does not answer. If it is not busy, run the cell again.";
const CELL_NEWS = ["thread", "timeline", "text"];
const CELL_ENDED = "The kernel of this cell has ended, or was started again: run the cell again.";

/**
 * Fills a cell. It may be called several times for one widget; each time is a view of its own.
 * Returns a function that ends it.
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
 */
export function cellBackend(model, tell = () => {}) {
  const view = crypto.randomUUID?.() ?? String(Math.random());
  const calls = new Map(); // by number: {resolve, reject, message, tries}
  const follows = new Map(); // by number: {hear, isNew, message, tries}
  let last = 0;
  let beats = 0;
  let hasEnded = false; // the kernel, or what answers there

  function send(message) {
    try {
      model.send({view, ...message});
    } catch {
      lose(); // there is no connection
    }
  }

  function hear(message) {
    if (message.view !== view) return;
    if (hasEnded) find();
    if ("call" in message) answer(message);
    else if (follows.has(message.follow)) news(follows.get(message.follow), message);
  }

  function answer({call, answer: data, error, kind, questions}) {
    const waiting = calls.get(call);
    if (!waiting) return;
    calls.delete(call);
    if (!calls.size) tell("");
    if (error === undefined) waiting.resolve(data);
    else waiting.reject(Object.assign(new Error(error), {kind, questions}));
  }

  function news(followed, {kind, data}) {
    if (kind === "lost") {
      followed.isNew = true;
      return followed.hear("lost", data);
    }
    if (followed.isNew) followed.hear("found");
    followed.isNew = false;
    if (kind === "timeline") followed.message.since = data.upto || followed.message.since;
    if (CELL_NEWS.includes(kind)) followed.hear(kind, data);
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
  const heard = {"msg:custom": hear, "comm:close": lose, comm_live_update: lose, destroy: lose};
  for (const [name, listener] of Object.entries(heard)) model.on(name, listener);

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

/** Keeps keys from the notebook, whose keys cut cells and the like. */
function keepKeys(el) {
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab
  for (const name of ["keydown", "keypress", "keyup"]) {
    el.addEventListener(name, (event) => event.stopPropagation());
  }
}

/** Makes the window dark or light as the notebook around is; returns a function that ends it. */
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
