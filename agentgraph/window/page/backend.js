// The connection of the window to its server: {call, follow}.
//
// call(name, arguments) resolves to the answer, or rejects with an Error that has the server's text
// as its message and the name of the error as `kind`. follow(thread, since, receive) calls
// receive(kind, data) for updates ("thread", "timeline", "text", "failed", and for the connection
// "lost" and "found"), and returns a function that ends it. The data of "lost" is {text, isForGood}.

/** @import {Backend} from "./page.d.ts" */
/** @import {News, Refusal} from "./shapes.d.ts" */

const FIRST_RETRY = 500; // milliseconds until the first reconnect; each further wait is longer
const LAST_RETRY = 5000;
const NO_SERVER = "The server does not answer. The page reconnects by itself.";
const OTHER_TOKEN =
  "The server was restarted with another token. Open the address that it printed.";

/**
 * The kinds of updates of a thread.
 *
 * @type {(keyof News)[]}
 */
export const NEWS = ["thread", "timeline", "text", "failed"];

/**
 * Make the error of a rejected call.
 *
 * @param {Partial<Refusal>} refusal
 */
export function errorOf({error: kind, detail, questions}) {
  return Object.assign(new Error(detail), {kind, questions});
}

/**
 * @param {string} token
 * @param {string} [tree] the tree of a page of several trees; empty for that of the first answer
 * @returns {Backend}
 */
export function serverBackend(token, tree = "") {
  const ofTree = () => new URLSearchParams(tree ? {tree} : {});

  /** @type {Backend["call"]} */
  async function call(name, args = {}) {
    const headers = {"Content-Type": "application/json", "X-Token": token};
    const body = JSON.stringify(args);
    const url = [`/call/${name}`, String(ofTree())].filter(Boolean).join("?");
    let reply;
    try {
      reply = await fetch(url, {method: "POST", headers, body});
    } catch {
      throw Object.assign(new Error("The server does not answer."), {kind: "lost"});
    }
    const data = await reply.json().catch(() => ({}));
    if (reply.ok && name === "about") tree ||= data.name;
    if (reply.ok && name === "reload") tree = data.about.name; // another one if the tree is gone
    if (reply.ok) return data;
    throw Object.assign(errorOf({detail: reply.statusText, ...data}), {status: reply.status});
  }

  /** @type {Backend["follow"]} */
  function follow(thread, since, receive) {
    /** @type {EventSource | null} */
    let source = null;
    let wait = FIRST_RETRY;
    let timer = 0;
    let isOver = false;

    function connect() {
      const query = ofTree();
      for (const [key, value] of Object.entries({token, thread, since})) if (value) query.set(key, value);
      source = new EventSource(`/news?${query}`);
      for (const kind of NEWS) {
        source.addEventListener(kind, (event) => {
          const data = JSON.parse(event.data);
          if (kind === "timeline") since = data.upto || since;
          receive(kind, data);
        });
      }
      source.addEventListener("open", () => {
        wait = FIRST_RETRY;
        receive("found");
      });
      source.addEventListener("error", lose);
    }

    // Reconnect here: the browser itself would request everything, not the updates after the last one.
    async function lose() {
      source?.close();
      if (isOver) return;
      receive("lost", {text: NO_SERVER, isForGood: false});
      const answer = await call("about").catch((error) => error);
      if (isOver) return;
      if (answer.status === 403) receive("lost", {text: OTHER_TOKEN, isForGood: true});
      else if (answer.status) receive("lost", {text: answer.message, isForGood: false});
      timer = setTimeout(connect, wait);
      wait = Math.min(wait * 2, LAST_RETRY);
    }

    // A page that the browser caches for "back" must not keep its connection: a browser has six of them.
    function leave() {
      clearTimeout(timer);
      source?.close();
    }

    /** @param {PageTransitionEvent} event */
    function comeBack({persisted}) {
      if (persisted) connect();
    }

    window.addEventListener("pagehide", leave);
    window.addEventListener("pageshow", comeBack);
    connect();
    return () => {
      isOver = true;
      window.removeEventListener("pagehide", leave);
      window.removeEventListener("pageshow", comeBack);
      leave();
    };
  }

  return {call, follow};
}
