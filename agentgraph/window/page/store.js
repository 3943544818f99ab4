// The state of the window: panels read it and are updated with the changed keys.
//
// A panel is made by `makeSomething(store, backend)` and is {node, update(state, changed)}: `node` is
// its element, `update` is called with the state and the Set of keys that have changed.

import {pathsOf} from "./activations.js";
import {dropOldest, mergeBars, mergePauses, placeBars} from "./bars.js";

/** @import {Backend, Bar, Receive, Received, Panel, State, Store} from "./page.d.ts" */
/** @import {News, Thread, ThreadRow, Timeline} from "./shapes.d.ts" */

const RUNS = new Set(["start", "answer", "resume", "rewind", "restart", "fork"]); // calls that take a context
const OWN_RUNS = new Set([...RUNS].filter((name) => name !== "fork")); // calls that run the open thread

/** @typedef {{[K in keyof Received]: (data: Received[K]) => void}} Listeners */

const MOST_BARS = 50000; // maximum number of bars; older ones are loaded again on request
const MOST_SAID = 20000; // maximum number of characters of a streamed text, the latest ones
const LISTED_FIRST = 50;
const LISTED_MORE = 100;
const LISTED_MOST = 500; // maximum number of threads in one answer of the server
const LIST_SECONDS = 2;
const LOST = "The connection is lost. The page reconnects by itself.";

/**
 * @param {Backend} backend
 * @returns {Store}
 */
export function makeStore(backend) {
  /** @type {State} */
  const state = {
    about: null, threads: null, search: "", status: "", others: false,
    threadId: null, line: null, stopping: null, thread: null, ...nothing(), selected: null,
    target: null, turn: null, picks: new Map(), wantsAgain: false, isConnected: true, lostText: "",
    started: 0,
    context: null, error: null, view: "work",
  };
  /** @type {Pick<Panel, "update">[]} */
  const panels = [];
  let leave = () => {};
  /** @type {Map<string, string>} */
  let paths = new Map(); // the ids of places, by their addresses without counters
  let listed = LISTED_FIRST;
  let asking = 0; // the timer of the list
  let hasOpened = false; // whether a thread, or the form of a new one, has been opened

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
    thread: receiveThread,
    text: receiveText,
    timeline: receiveBars,
    failed: ({detail, error}) => set({error: {message: detail, kind: error}}),
  };

  /** @type {Receive} */
  const receive = (kind, data) => listeners[kind]?.(/** @type {any} */ (data));

  function found() {
    if (state.isConnected) return;
    set({isConnected: true, lostText: ""});
    refreshAbout();
    refreshThreads();
  }

  /** @param {Thread} thread */
  function receiveThread(thread) {
    const isOther = thread.status !== state.thread?.status;
    const stopping = thread.status === "running" ? state.stopping : null;
    set({...(thread.status === "new" ? nothing() : {}), thread, stopping}); // it may have been deleted
    if (isOther) refreshThreads();
  }

  /** @param {News["text"]} news */
  function receiveText({address, place, id, text, is_whole: isWhole}) {
    const continues = !isWhole && state.streamed.get(address) === id;
    const before = continues ? (state.texts.get(address) ?? "") : "";
    const whole = (before + text).slice(-MOST_SAID);
    state.texts.set(address, whole);
    state.streamed.set(address, id);
    if (place !== null) state.saying.set(place, whole);
    set({texts: state.texts});
  }

  /** @param {Timeline & {gone?: string[]}} timeline */
  function receiveBars(timeline) {
    const {bars, is_whole: isWhole} = timeline;
    const isNew = !state.bars.has(state.selected ?? "");
    mergeBars(state.bars, timeline);
    mergePauses(state.pauses, timeline);
    placeBars(bars, paths);
    const said = state.texts.size;
    for (const bar of bars) if (bar.state !== "running") forgetText(bar);
    /** @type {Partial<State>} */
    const changes = {bars: state.bars};
    if (isWhole !== undefined) changes.isWhole = isWhole;
    if (dropOldest(state.bars, MOST_BARS)) changes.isWhole = false;
    if (state.texts.size < said) changes.texts = state.texts;
    set(changes);
    if (isNew && state.bars.has(state.selected ?? "")) select(state.selected);
  }

  /** Select a bar; the tree shows its turn.
   *
   * @param {string | null} id
   */
  function select(id) {
    const turn = state.bars.get(id ?? "")?.turn;
    const last = state.thread?.turns.at(-1)?.number;
    const isShown = turn === undefined || state.turn === -1 || turn === (state.turn ?? last);
    set({selected: id, ...(isShown ? {} : {turn: turn === last ? null : turn, picks: new Map()})});
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
    const {search, status, others} = state;
    try {
      const threads = await listThreads(search, status, others);
      const isStill = search === state.search && status === state.status && others === state.others;
      if (isStill) set({threads, ...relost("")});
    } catch (error) {
      set({...relost(error.message)});
    }
    clearTimeout(asking);
    asking = setTimeout(isSeen() ? refreshThreads : waitUntilSeen, LIST_SECONDS * 1000);
  }

  /**
   * Return the newest threads, in several calls, because the server limits each answer.
   *
   * @param {string} search
   * @param {string} status
   * @param {boolean} others
   */
  async function listThreads(search, status, others) {
    const words = {search, ...(status ? {status} : {}), ...(others ? {others} : {})};
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
   * Without a thread, only the list shows whether the server answers.
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
    hasOpened = true;
    leave();
    set({
      ...nothing(), threadId, line, turn: null, picks: new Map(), error: null, thread: null,
      stopping: null, selected: null,
    });
    leave = () => {};
    if (!threadId) return;
    if (line === null) leave = backend.follow(threadId, null, receive);
    else openLine(threadId, line);
  }

  /** Open the thread that is running, waits or ran last, unless another one is open. */
  function openFirst() {
    if (!hasOpened) open(firstThread(state.threads?.threads ?? []));
  }

  /**
   * @param {string} threadId
   * @param {string} line
   */
  async function openLine(threadId, line) {
    const isStill = () => state.threadId === threadId && state.line === line;
    try {
      const thread = await backend.call("thread", {thread_id: threadId, line});
      const timeline = await backend.call("timeline", {thread_id: threadId, line});
      if (!isStill()) return;
      receiveThread(thread);
      receiveBars(timeline);
    } catch (error) {
      if (isStill()) set({error});
    }
  }

  /** Make a call as the backend does, with the typed context; note a requested stop, and follow a run.
   *
   * @type {Backend["call"]}
   */
  async function call(name, args) {
    const context = RUNS.has(name) && state.context ? {context: state.context} : {};
    const answer = await backend.call(name, args && {...args, ...context});
    const about = args && "thread_id" in args ? args.thread_id : null;
    if (about === null || about !== state.threadId) return answer;
    if (name === "stop" && state.thread?.status === "running") set({stopping: state.threadId});
    if (OWN_RUNS.has(name)) set({turn: null, picks: new Map(), started: state.started + 1});
    return answer;
  }

  return {
    state,
    set,
    backend: {...backend, call}, // for the panels
    add(panel) {
      panels.push(panel);
    },
    /** Open a thread, or one of its older lines. */
    open,
    openFirst,
    select,
    /** Load the bars before the known ones. */
    async loadOlder() {
      const {threadId, line} = state;
      const last = Math.max(1000, state.bars.size * 4);
      if (!threadId) return;
      const args = {thread_id: threadId, last, ...(line ? {line} : {})};
      const timeline = await backend.call("timeline", args).catch((error) => set({error}));
      if (timeline && threadId === state.threadId && line === state.line) receiveBars(timeline);
    },
    refreshAbout,
    refreshThreads,
    /** List the threads whose ids or texts contain a word. */
    find: (search, status = state.status) => {
      set({search, status});
      return refreshThreads();
    },
    /** List the threads of other trees, too. */
    listOthers(others) {
      set({others});
      return refreshThreads();
    },
    listMore() {
      listed += LISTED_MORE;
      return refreshThreads();
    },
    /** Make a call and show its error. Returns the answer, or undefined. */
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

/** Return the state of a thread before any of it is read. */
function nothing() {
  return {
    bars: new Map(), pauses: new Map(), texts: new Map(), streamed: new Map(), saying: new Map(),
    isWhole: true, talk: null,
  };
}

/** Return the id of the thread that a person most likely looks for: one that runs or waits, else the latest.
 *
 * @param {ThreadRow[]} rows
 */
export function firstThread(rows) {
  const active = rows.filter(({status}) => status === "running" || status === "paused");
  const latest = (active.length ? active : rows).reduce(
    (a, b) => (a && a.updated >= b.updated ? a : b),
    /** @type {ThreadRow | null} */ (null),
  );
  return latest?.thread_id ?? null;
}
