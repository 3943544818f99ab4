// What the window knows: one state, which panels read, and which says what has changed.
//
// A panel is made by `makeSomething(store, backend)` and is {node, update(state, changed)}: `node` is
// its element, `update` is called with the state and the Set of keys that have changed.

import {pathsOf} from "./activations.js";
import {dropOldest, mergeBars, placeBars} from "./bars.js";

/** @import {Backend, Bar, Hear, Heard, Panel, State, Store} from "./page.d.ts" */
/** @import {News, Thread, Timeline} from "./shapes.d.ts" */

/** @typedef {{[K in keyof Heard]: (data: Heard[K]) => void}} Listeners */

const MOST_BARS = 50000; // older ones are asked for again
const MOST_SAID = 20000; // the last characters of what an agent is saying
const LISTED_FIRST = 50;
const LISTED_MORE = 100;
const LISTED_MOST = 500; // threads of a page, as the server has them
const LIST_SECONDS = 2;
const LOST = "The connection is lost.";

/**
 * @param {Backend} backend
 * @returns {Store}
 */
export function makeStore(backend) {
  /** @type {State} */
  const state = {
    about: null, threads: null, search: "", status: "", threadId: null, line: null, stopping: null,
    thread: null, bars: new Map(), isWhole: true, texts: new Map(), saying: new Map(), selected: null,
    target: null, turn: null, picks: new Map(), wantsAgain: false, isConnected: true, lostText: "",
    error: null,
  };
  /** @type {Pick<Panel, "update">[]} */
  const panels = [];
  let leave = () => {};
  /** @type {Map<string, string>} */
  let paths = new Map(); // the ids of places, by their addresses without counters
  let listed = LISTED_FIRST;
  let asking = 0; // the timer of the list

  /** @param {Partial<State>} changes */
  function set(changes) {
    Object.assign(state, changes);
    if (changes.about) {
      paths = pathsOf(changes.about.tree);
      placeBars(state.bars.values(), paths);
    }
    const changed = new Set(Object.keys(changes));
    for (const panel of panels) panel.update(state, changed);
  }

  /** @type {Listeners} */
  const listeners = {
    lost: (data) => set({isConnected: false, lostText: data?.text ?? LOST}),
    found,
    thread: hearThread,
    text: hearText,
    timeline: hearBars,
    failed: ({detail, error}) => set({error: {message: detail, kind: error}}),
  };

  /** @type {Hear} */
  const hear = (kind, data) => listeners[kind]?.(/** @type {any} */ (data));

  function found() {
    if (state.isConnected) return;
    set({isConnected: true, lostText: ""});
    refreshAbout();
    refreshThreads();
  }

  /** @param {Thread} thread */
  function hearThread(thread) {
    const isOther = thread.status !== state.thread?.status;
    const stopping = thread.status === "running" ? state.stopping : null;
    const empty = thread.status === "new" ? {bars: new Map(), isWhole: true} : {};
    set({thread, stopping, ...empty});
    if (isOther) refreshThreads();
  }

  /** @param {News["text"]} news */
  function hearText({address, place, text}) {
    const whole = ((state.texts.get(address) ?? "") + text).slice(-MOST_SAID);
    state.texts.set(address, whole);
    if (place !== null) state.saying.set(place, whole);
    set({texts: state.texts});
  }

  /** @param {Timeline & {gone?: string[]}} timeline */
  function hearBars(timeline) {
    const {bars, is_whole: isWhole} = timeline;
    mergeBars(state.bars, timeline);
    placeBars(bars, paths);
    const said = state.texts.size;
    for (const bar of bars) if (bar.state !== "running") forgetText(bar);
    /** @type {Partial<State>} */
    const changes = {bars: state.bars};
    if (isWhole !== undefined) changes.isWhole = isWhole;
    if (dropOldest(state.bars, MOST_BARS)) changes.isWhole = false;
    if (state.texts.size < said) changes.texts = state.texts;
    set(changes);
  }

  /** @param {Bar} bar */
  function forgetText(bar) {
    if (state.texts.delete(bar.address)) state.saying.delete(bar.place ?? "");
  }

  async function refreshAbout() {
    const about = await backend.call("about").catch(() => null);
    if (about && JSON.stringify(about) !== JSON.stringify(state.about)) set({about});
  }

  async function refreshThreads() {
    clearTimeout(asking);
    const {search, status} = state;
    try {
      const threads = await listThreads(search, status);
      if (search === state.search && status === state.status) set({threads, ...relost("")});
    } catch (error) {
      set({...relost(error.message)});
    }
    clearTimeout(asking);
    asking = setTimeout(isSeen() ? refreshThreads : waitUntilSeen, LIST_SECONDS * 1000);
  }

  /**
   * Return the newest threads: one page after the other, because a page of the server has a greatest size.
   *
   * @param {string} search
   * @param {string} status
   */
  async function listThreads(search, status) {
    const words = status ? {search, status} : {search};
    const listing = await backend.call("threads", {...words, limit: Math.min(listed, LISTED_MOST)});
    let page = listing.threads;
    while (listing.threads.length < listed && page.length === LISTED_MOST) {
      const before = page[page.length - 1].thread_id;
      const limit = Math.min(listed - listing.threads.length, LISTED_MOST);
      const next = await backend.call("threads", {...words, limit, before});
      page = next.threads;
      listing.threads.push(...page);
      listing.more = next.more;
    }
    return listing;
  }

  /**
   * Without a thread, the list alone notices that the server is gone, or there again.
   *
   * @param {string} text
   */
  function relost(text) {
    if (state.threadId || state.isConnected === !text) return {};
    return {isConnected: !text, lostText: text};
  }

  function isSeen() {
    return document.visibilityState !== "hidden";
  }

  function waitUntilSeen() {
    document.addEventListener("visibilitychange", refreshThreads, {once: true});
  }

  /**
   * @param {string | null} threadId
   * @param {string | null} [line]
   */
  function open(threadId, line = null) {
    leave();
    set({
      threadId, line, turn: null, picks: new Map(), error: null, thread: null, stopping: null,
      bars: new Map(), texts: new Map(), saying: new Map(), selected: null, isWhole: true,
    });
    leave = () => {};
    if (!threadId) return;
    if (line === null) leave = backend.follow(threadId, null, hear);
    else openLine(threadId, line);
  }

  /**
   * @param {string} threadId
   * @param {string} line
   */
  async function openLine(threadId, line) {
    const isStill = () => state.threadId === threadId && state.line === line;
    try {
      const thread = await backend.call("thread", {thread_id: threadId});
      const timeline = await backend.call("timeline", {thread_id: threadId, line});
      if (!isStill()) return;
      hearThread(thread);
      hearBars(timeline);
    } catch (error) {
      if (isStill()) set({error});
    }
  }

  /** Make a call as the backend does; note that a thread was told to stop.
   *
   * @type {Backend["call"]}
   */
  async function call(name, args) {
    const answer = await backend.call(name, args);
    const about = args && "thread_id" in args ? args.thread_id : null;
    const isOpen = about === state.threadId && state.thread?.status === "running";
    if (name === "stop" && isOpen) set({stopping: state.threadId});
    return answer;
  }

  return {
    state,
    set,
    backend: {...backend, call}, // for the panels
    add(panel) {
      panels.push(panel);
    },
    /** Look at a thread, or at one of its older lines. */
    open,
    select: (id) => set({selected: id}),
    /** Ask for the bars before those that are known. */
    async loadOlder() {
      const {threadId, line} = state;
      const last = Math.max(1000, state.bars.size * 4);
      if (!threadId) return;
      const args = {thread_id: threadId, last, ...(line ? {line} : {})};
      const timeline = await backend.call("timeline", args).catch((error) => set({error}));
      if (timeline && threadId === state.threadId && line === state.line) hearBars(timeline);
    },
    refreshAbout,
    refreshThreads,
    /** List the threads whose names or texts have a word. */
    find: (search, status = state.status) => {
      set({search, status});
      return refreshThreads();
    },
    listMore() {
      listed += LISTED_MORE;
      return refreshThreads();
    },
    /** Make a call that a person wants; show why it was refused. Returns the answer, or undefined. */
    async want(name, args) {
      try {
        const answer = await call(name, args);
        set({error: null});
        return answer;
      } catch (error) {
        set({error});
        return undefined;
      }
    },
    close() {
      leave();
      clearTimeout(asking);
      document.removeEventListener("visibilitychange", refreshThreads);
    },
  };
}
