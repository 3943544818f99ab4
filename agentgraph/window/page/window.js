// The window: threads, the tree, the timeline, one activation, questions, runs and rewinds.

import {makeActions} from "./actions.js";
import {makeDetail} from "./detail.js";
import {countText, el, isTyping, setText, settings, shortId, shortText, toolButton} from "./elements.js";
import {costText} from "./entries.js";
import {makeHelp} from "./help.js";
import {makeFindings} from "./findings.js";
import {makeBorder, makeTabs} from "./layout.js";
import {makeMachine} from "./machine.js";
import {makeQuestions} from "./questions.js";
import {STATUS_MARKS, stateText} from "./states.js";
import {makeStore} from "./store.js";
import {makeSummary} from "./summary.js";
import {makeThreads} from "./threads.js";
import {makeTimeline} from "./timeline.js";
import {makeTree} from "./tree.js";
import {makeTreeChoice} from "./trees.js";
import {makeViews} from "./views.js";

/** @import {Backend, Changed, State, Store} from "./page.d.ts" */
/** @import {About, Thread} from "./shapes.d.ts" */

const NARROW_WINDOW = 620; // pixels; a narrower window shows the threads above the rest

/**
 * The initial view: a thread, an older line of the thread, and the id of a bar.
 *
 * @typedef {{thread?: string | null, line?: string | null, at?: string | null}} Opened
 * @typedef {Opened & {title?: string, tree?: string | null}} Shown
 */

/** Show the window in an element: {store, close}.
 *
 * `note` is called with the shown thread, line and bar after each change.
 *
 * @param {HTMLElement} root
 * @param {Backend} backend
 * @param {Opened & {note?: (shown: Shown) => void}} [place] what to open
 */
export async function mount(root, backend, place = {}) {
  const {thread = null, line = null, at = null, note = () => {}} = place;
  root.classList.add("agentgraph-window");
  root.replaceChildren(el("p", {class: "starting quiet", role: "status"}, "Loading …"));
  const about = await firstAnswer(root, backend, thread);
  const store = makeStore(backend);
  const shell = makeShell(root, store, store.backend, note);
  root.replaceChildren(...shell.nodes);
  store.set({about});
  if (thread) store.open(thread, line);
  if (thread && at) store.select(at);
  store.refreshThreads().then(store.openFirst);
  return {store, close: shell.close};
}

/** Return the data of the tree; wait for a server that does not answer yet, and show its error.
 *
 * @param {HTMLElement} root
 * @param {Backend} backend
 * @param {string | null} thread the thread to open, by which one of several trees is chosen
 * @returns {Promise<About>}
 */
async function firstAnswer(root, backend, thread) {
  for (;;) {
    try {
      return await backend.call("about", thread ? {thread_id: thread} : {});
    } catch (error) {
      root.replaceChildren(el("p", {class: "starting", role: "alert"}, error.message));
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
}

/**
 * @param {HTMLElement} root
 * @param {Store} store
 * @param {Backend} backend
 * @param {(shown: Shown) => void} note
 */
function makeShell(root, store, backend, note) {
  const {state} = store;
  const threads = makeThreads(store);
  const summary = makeSummary(store);
  const tree = makeTree(store);
  const findings = makeFindings(backend, tree.reveal);
  const timeline = makeTimeline(store);
  const side = makeSide(store, backend);
  const head = makeHead(root, timeline);
  const alerts = makeAlerts(store);
  const left = el("aside", {class: "left"}, threads.node);
  const right = el("aside", {class: "right", "aria-label": "Details"}, side.node);
  const between = makeBorder(root, "tree", {isRow: true, measure: () => tree.node.offsetHeight});
  const views = makeViews(store, backend, [tree.node, between, timeline.node]);
  const parts = [summary.version, summary.node, findings.node, views.node];
  const middle = el("main", {class: "middle"}, ...parts);
  left.append(makeBorder(root, "left", {measure: () => left.offsetWidth}));
  right.prepend(makeBorder(root, "right", {sign: -1, measure: () => right.offsetWidth}));
  const body = el("div", {class: "body"}, left, middle, right);
  const help = makeHelp();
  const panels = [threads, summary, findings, tree, timeline, side, head, alerts, views, help];
  for (const panel of panels) store.add(panel);
  store.add({update: (_, changed) => tellPlace(state, changed, note)});
  const newRun = () => {
    store.open(null);
    if (state.view === "talk") return views.focusMessage();
    side.show("actions");
    return /** @type {HTMLElement | null} */ (side.place("actions").querySelector(".message"))?.focus();
  };
  root.addEventListener("newrun", newRun);
  root.addEventListener("showtab", (event) => {
    side.show(/** @type {CustomEvent<string>} */ (event).detail);
    if (isNarrow(root)) right.scrollIntoView();
  });
  root.addEventListener("showdetails", () => isNarrow(root) && right.scrollIntoView());
  root.addEventListener("setvalue", () => {
    side.show("actions");
    const field = side.place("actions").querySelector(".resume .values textarea");
    /** @type {HTMLElement | null} */ (field)?.focus();
  });
  root.addEventListener("openbar", () => {
    side.show("detail");
    side.focus("detail");
  });
  const keys = makeKeys({store, threads, tree, timeline, side, head, help: help.node, newRun, views});
  root.addEventListener("keydown", keys);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", timeline.repaint);
  root.addEventListener("schemechange", timeline.repaint); // of the surrounding page
  return {
    nodes: [head.node, alerts.node, body, help.node],
    close() {
      store.close();
      root.removeEventListener("keydown", keys);
      scheme.removeEventListener("change", timeline.repaint);
      root.removeEventListener("schemechange", timeline.repaint);
    },
  };
}

/**
 * @param {State} state
 * @param {Changed} changed
 * @param {(shown: Shown) => void} note
 */
function tellPlace(state, changed, note) {
  if (!["threadId", "line", "selected", "about"].some((key) => changed.has(key))) return;
  const {threadId, line, selected, about} = state;
  const tree = about && about.trees.length > 1 ? about.name : null;
  const titles = [threadId && shortText(threadId, 40), tree, about?.title];
  note({thread: threadId, line, at: selected, tree, title: titles.filter(Boolean).join(" · ")});
}

// at the right

/**
 * @param {Store} store
 * @param {Backend} backend
 */
function makeSide(store, backend) {
  const detail = makeDetail(store, backend);
  const questions = makeQuestions(store, backend);
  const actions = makeActions(store, backend);
  const machine = makeMachine(store, backend);
  const tabs = makeTabs("Details", [
    ["detail", "Activation", detail.node],
    ["questions", "Questions", questions.node],
    ["actions", "Run", actions.node],
    ["machine", "Rewind", machine.node],
  ]);
  const panels = [detail, questions, actions, machine];
  let waiting = 0;

  /**
   * @param {State} state
   * @param {Changed} changed
   */
  function showWhatMatters(state, changed) {
    if (changed.has("threadId")) waiting = 0;
    if (state.view !== "talk") showForms(state, changed); // the conversation has its own
    if (changed.has("selected") && state.selected && tabs.shown !== "machine") tabs.show("detail");
    if (changed.has("wantsAgain")) tabs.show("machine");
    if (!changed.has("thread")) return;
    const now = state.thread?.pending.length ?? 0;
    tabs.badge("questions", now ? String(now) : "");
    waiting = now;
  }

  /**
   * @param {State} state
   * @param {Changed} changed
   */
  function showForms({thread, threadId, selected}, changed) {
    if (changed.has("threadId") && !threadId) tabs.show("actions");
    const isAsked = changed.has("thread") && (thread?.pending.length ?? 0) > waiting;
    if (isAsked && !selected) tabs.show("questions");
  }

  return {
    ...tabs,
    /**
     * @param {State} state
     * @param {Changed} changed
     */
    update(state, changed) {
      showWhatMatters(state, changed);
      for (const panel of panels) panel.update(state, changed);
    },
  };
}

// above

/**
 * @param {HTMLElement} root
 * @param {{repaint: () => void}} timeline
 */
function makeHead(root, timeline) {
  const title = el("h1", {class: "title"});
  const choice = makeTreeChoice();
  const name = el("bdi", {class: "head-thread"});
  const status = el("span", {class: "pill", role: "status"});
  const facts = el("span", {class: "head-facts quiet"});
  const readOnly = el("span", {class: "pill read-only"}, "Read-only");
  const connection = el("span", {class: "connection quiet", role: "status"});
  /** @type {(isHidden: boolean) => void} */
  let hideThreads = () => {};
  let wasNarrow = false;
  /** @type {(side: string, label: string, text: string) => HTMLElement} */
  const toggle = (side, label, text) => {
    const button = toolButton(`toggle-${side}`, label, text, () => {
      const isHidden = !root.classList.contains(`without-${side}`);
      set(isHidden);
      settings.set(`without.${side}`, isHidden);
    });
    /** @param {boolean} isHidden */
    const set = (isHidden) => {
      root.classList.toggle(`without-${side}`, isHidden);
      button.setAttribute("aria-pressed", String(!isHidden));
    };
    set(settings.get(`without.${side}`, false));
    if (side === "left") hideThreads = set;
    return button;
  };
  const theme = toolButton("theme", "Switch dark and light (t)", "◐", () => toggleTheme());
  const showHelp = () => root.querySelector("dialog")?.showModal();
  const help = toolButton("help-button", "Help (?)", "?", showHelp);
  const node = el("header", {class: "head"},
    toggle("left", "Threads", "☰"), el("span", {class: "product quiet"}, "agentgraph"), title,
    choice.node, name, status, readOnly, facts, el("span", {class: "spacer"}), connection, theme, help,
    toggle("right", "Details", "◨"));

  /** @param {string | null} wanted */
  function setTheme(wanted) {
    if (wanted) root.dataset.theme = wanted;
    else delete root.dataset.theme;
    settings.set("theme", wanted);
    timeline.repaint();
  }

  function toggleTheme() {
    const {colorScheme} = getComputedStyle(root);
    const isEither = colorScheme === "light dark";
    const isDark = isEither ? matchMedia("(prefers-color-scheme: dark)").matches : colorScheme === "dark";
    setTheme(isDark ? "light" : "dark");
  }

  /** Close the threads in a narrow window, where they cover the rest; show them again in a wide one. */
  function fitThreads() {
    if (wasNarrow !== isNarrow(root)) hideThreads(!wasNarrow || settings.get("without.left", false));
    wasNarrow = isNarrow(root);
  }

  new ResizeObserver(fitThreads).observe(root);
  setTheme(settings.get("theme", /** @type {string | null} */ (null)));
  return {
    node,
    toggleTheme,
    /**
     * @param {State} state
     * @param {Changed} changed
     */
    update(state, changed) {
      if (changed.has("threadId") && isNarrow(root)) hideThreads(true);
      choice.update(state, changed);
      setText(title, shortText(state.about?.title ?? "", 60));
      setText(name, state.threadId ? shortId(state.threadId) : "New run");
      name.title = shortText(state.threadId ?? "", 300);
      const {thread} = state;
      readOnly.hidden = !state.about?.is_read_only;
      status.hidden = !thread;
      if (thread) {
        const isStopping = state.stopping && state.stopping === state.threadId;
        const word = isStopping ? "Stopping…" : stateText(thread.status);
        setText(status, `${STATUS_MARKS[thread.status] ?? ""} ${word}`);
        status.dataset.status = thread.status;
      }
      setText(facts, thread ? headFacts(thread) : "");
      setText(connection, state.isConnected ? "Connected" : "Not connected");
      connection.dataset.state = state.isConnected ? "live" : "lost";
    },
  };
}

/** @param {HTMLElement} root */
function isNarrow(root) {
  return root.clientWidth < NARROW_WINDOW;
}

/** @param {Thread} thread */
function headFacts({turns, usage, cost, lines}) {
  const tokens = (usage.input ?? 0) + (usage.output ?? 0);
  return [
    turns.length > 1 ? `${turns.length} turns` : "",
    tokens ? `${countText(tokens)} tokens` : "",
    costText(cost),
    lines > 1 ? `${lines} versions` : "",
  ].filter(Boolean).join(" · ");
}

/** @param {Store} store */
function makeAlerts(store) {
  const text = el("span", {dir: "auto"});
  const close = el("button", {type: "button", "aria-label": "Close", class: "quiet-button"}, "✕");
  const refused = el("div", {class: "alert bad refused", role: "alert", hidden: true}, text, close);
  const lost = el("div", {class: "alert lost", role: "alert", hidden: true});
  close.addEventListener("click", () => store.set({error: null}));
  return {
    node: el("div", {class: "alerts"}, lost, refused),
    /** @param {State} state */
    update(state) {
      lost.hidden = state.isConnected;
      setText(lost, state.isConnected ? "" : state.lostText);
      refused.hidden = !state.error;
      setText(text, state.error ? String(state.error.message).slice(0, 4000) : "");
    },
  };
}

// keys

/**
 * What keys act on.
 *
 * @typedef {{
 *   store: Store, threads: ReturnType<typeof makeThreads>, tree: ReturnType<typeof makeTree>,
 *   timeline: ReturnType<typeof makeTimeline>,
 *   side: ReturnType<typeof makeSide>, head: ReturnType<typeof makeHead>, help: HTMLDialogElement,
 *   newRun: () => void, views: ReturnType<typeof makeViews>,
 * }} KeyActs
 */

/** @param {KeyActs} acts */
function makeKeys({store, threads, tree, timeline, side, head, help, newRun, views}) {
  const tabs = ["detail", "questions", "actions", "machine"];
  /** @type {Record<string, () => void>} */
  const keys = {
    "?": () => (help.open ? help.close() : help.showModal()),
    "/": () => threads.search.select(),
    j: () => timeline.go("next"),
    k: () => timeline.go("before"),
    g: () => timeline.go("first"),
    G: () => timeline.go("last"),
    l: () => timeline.focus(),
    n: newRun,
    t: head.toggleTheme,
    v: views.next,
    Escape: () => (help.open ? help.close() : tree.closeLegend() || store.select(null)),
  };
  tabs.forEach((name, number) => {
    keys[number + 1] = () => side.show(name);
  });
  /** @param {KeyboardEvent} event */
  return (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event)) {
      if (event.key === "Escape") /** @type {HTMLElement} */ (event.target).blur();
      return;
    }
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
}
