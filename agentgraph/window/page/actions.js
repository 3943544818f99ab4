// The actions on a thread: start a run or turn, steer, stop, resume, reload the tree.

import {isAround} from "./activations.js";
import {lastFailed} from "./bars.js";
import {el, longText, newId, setText} from "./elements.js";
import {actionButton, putEntries, refusal} from "./entries.js";
import {contextForm} from "./contexts.js";
import {limitHit, limitsForm, missingValue} from "./limits.js";
import {valuesForm} from "./values_form.js";

/** @import {Backend, Bar, Changed, Entry, State, Store} from "./page.d.ts" */
/** @import {Calls} from "./shapes.d.ts" */

const MOST_DRAFTS = 100;
const SAID_SECONDS = 4; // seconds that a confirmation stays, whatever updates arrive
const FILES_SECONDS = 3; // seconds between checks of the tree's files
const OLD_LINE = "This is an older version of the thread. To run from here, restore this version.";
const READ_ONLY = "The threads are read-only, because their file is not writable.";
/** @type {Record<string, string>} */
const HINTS = {
  new: "A message starts a run.",
  done: "A message starts the next turn.",
  running:
    "Steer: running agents read the message next. Queue: the message starts the next turn.",
  paused: "Questions are open. A message starts the next turn only if the questions are dropped.",
  failed: "The run failed.",
  stopped: "The run was stopped, or its process ended.",
};
/** @type {Record<string, string>} */
const RESUMES = {
  failed: "Retries the failed step. Finished steps are kept.",
  stopped: "Continues with the unfinished step.",
};

/** Make the panel of the actions on the thread that is open.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {{watches?: boolean}} [options] whether it checks for changed files of the tree
 */
export function makeActions(store, backend, {watches = true} = {}) {
  const id = newId("message");
  const fault = refusal();
  const said = el("p", {class: "quiet", role: "status"});
  const banner = el("div", {class: "banner", hidden: true});
  const queued = el("div", {class: "queued"});
  const limits = limitsForm();
  const values = valuesForm(store, backend);
  const startLimits = limitsForm();
  const context = contextForm(store);
  const resumeValues = valuesForm(store, backend);
  const text = el("textarea", {
    id,
    rows: 2,
    class: "message",
    placeholder: "Write a message",
    onkeydown: sendByKey,
    oninput: showControls,
  });
  const hint = el("p", {class: "quiet hint"});
  const controls = {
    send: el("button", {class: "primary"}, "Send message"),
    queue: actionButton("Queue message", () => say({while_running: "queue"})),
    drop: actionButton("Drop questions and send", () => say({drop_pending: true})),
    fresh: actionButton("Send on new thread", () => say({thread_id: null})),
    stop: actionButton("Stop run", stop, {class: "stop"}),
    resume: actionButton("Resume run", resume, {class: "primary"}),
  };
  const {resume: resumeButton, ...sending} = controls;
  const resumeText = el("span");
  const resumePart = el(
    "div",
    {class: "resume", role: "group", "aria-label": "Resume", hidden: true},
    el("div", {class: "row"}, resumeButton, resumeText),
    limits.node,
    resumeValues.node,
  );
  const form = el(
    "form",
    {novalidate: true, onsubmit: submit},
    el("label", {for: id}, "Message"),
    text,
    values.node,
    startLimits.node,
    el("div", {class: "row"}, ...Object.values(sending)),
  );
  const stops = el("p", {class: "quiet stops", role: "status", hidden: true});
  const ends = [stops, fault.node, said];
  const parts = [banner, queued, hint, resumePart, form, context.node, ...ends];
  const node = el("section", {class: "actions", "aria-label": "Actions"}, ...parts);
  /** @type {Map<string | null, string>} */
  const drafts = new Map(); // what was typed and not sent, by thread
  let saidAt = 0; // time of the last confirmation
  let isSaidOfRun = false; // whether the confirmation holds only while the run is active
  /** @type {{threadId: string, turns: number | undefined} | null} */
  let stopping = null; // {threadId, turns} of the run that has been requested to stop

  function status() {
    const {threadId, thread} = store.state;
    return threadId ? (thread?.status ?? "") : "new";
  }

  /** @param {KeyboardEvent} event */
  function sendByKey(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!controls.send.disabled) form.requestSubmit(controls.send.hidden ? undefined : controls.send);
  }

  /** @param {SubmitEvent} event */
  function submit(event) {
    event.preventDefault();
    if (status() === "running") steer();
    else if (status() !== "paused") say({});
  }

  /**
   * Make a call and show its error here. Returns the answer, or undefined.
   *
   * @template {keyof Calls} N
   * @param {N} name
   * @param {Calls[N][0]} args
   * @param {string} done
   */
  async function want(name, args, done) {
    fault.say("");
    setText(said, "");
    for (const each of Object.values(controls)) each.disabled = true;
    let answer;
    try {
      answer = await backend.call(name, args);
      setText(said, done);
      saidAt = Date.now();
      isSaidOfRun = ["start", "resume"].includes(name);
      if (isSaidOfRun) setTimeout(forgetSaid, SAID_SECONDS * 1000);
    } catch (error) {
      fault.say(error.message);
    }
    showControls();
    return answer;
  }

  function typed() {
    if (text.value.trim()) return text.value;
    fault.say("The message is empty. Type a message.");
    text.focus();
    return undefined;
  }

  /** @param {{while_running?: "queue", drop_pending?: boolean, thread_id?: null}} more */
  async function say(more) {
    const message = typed();
    const given = values.read();
    if (given.error) return fault.say(given.error);
    if (message === undefined) return undefined;
    const {thread_id: threadId = store.state.threadId, ...how} = more;
    const bound = startLimits.read();
    const set = {...(given.values ? {values: given.values} : {}), ...(bound ? {limits: bound} : {})};
    const args = {text: message, ...(threadId ? {thread_id: threadId} : {}), ...set, ...how};
    const done = more.while_running === "queue" ? "Message queued" : "Run started";
    const answer = await want("start", args, done);
    if (!answer) return undefined;
    clear();
    if (answer.thread_id && answer.thread_id !== store.state.threadId) store.open(answer.thread_id);
    return text.focus();
  }

  async function steer() {
    const message = typed();
    if (message === undefined) return;
    if (values.read().values) {
      fault.say("Values can only start a turn. Queue the message, or remove the values.");
      return;
    }
    const {threadId} = store.state;
    if (!threadId) return;
    if (await want("steer", {thread_id: threadId, text: message}, "Message sent")) clear();
    text.focus();
  }

  function clear() {
    text.value = "";
    values.clear();
    startLimits.clear();
    drafts.delete(store.state.threadId);
    showControls();
  }

  /** Remove the confirmation of a run that has ended. */
  function forgetSaid() {
    if (isSaidOfRun && status() !== "running") setText(said, "");
  }

  async function stop() {
    const {threadId, thread} = store.state;
    if (!threadId || !(await want("stop", {thread_id: threadId}, ""))) return;
    stopping = {threadId, turns: thread?.turns.length};
    showControls();
  }

  function isStopping() {
    const {threadId, thread} = store.state;
    if (!stopping || threadId !== stopping.threadId) return false;
    if (status() !== "running" || thread?.turns.length !== stopping.turns) stopping = null;
    return stopping !== null;
  }

  async function resume() {
    const raised = limits.read();
    const given = resumeValues.read();
    if (given.error) return fault.say(given.error);
    const {threadId} = store.state;
    if (!threadId) return undefined;
    const more = {...(raised ? {limits: raised} : {}), ...(given.values ? {values: given.values} : {})};
    if (await want("resume", {thread_id: threadId, ...more}, "Run resumed")) {
      limits.clear();
      resumeValues.clear();
    }
    return undefined;
  }

  async function reload() {
    const answer = await want("reload", {}, "");
    if (!answer) return;
    const {threadId, line} = store.state;
    if (answer.about) store.set({about: answer.about});
    if (answer.changed) store.open(threadId, line); // the activations may have other places in the new tree
    if (answer.error) fault.say(answer.error);
    else if (answer.waits)
      setText(said, "Runs are active. The tree is reloaded when they have ended.");
    else setText(said, answer.changed ? "Tree reloaded" : "The files of the tree have not changed.");
  }

  /** Check for changed files of the tree, as long as the panel is on the page. */
  async function watchFiles() {
    const wasSeen = node.isConnected;
    if (wasSeen && document.visibilityState !== "hidden") await store.refreshAbout();
    if (!wasSeen || node.isConnected) setTimeout(watchFiles, FILES_SECONDS * 1000);
  }

  /**
   * @param {State} state
   * @param {Changed} changed
   */
  function update(state, changed) {
    if (watches && !isWatching && state.about?.can_reload) {
      isWatching = true;
      watchFiles();
    }
    if (changed.has("about") || changed.has("context"))
      context.show(state.about?.context ?? null, state.context);
    if (changed.has("threadId")) changeDraft(state.threadId);
    const keys = ["threadId", "thread", "line", "about", "bars"];
    if (!keys.some((each) => changed.has(each))) return;
    proposeValues(state);
    showBanner(state);
    showQueued(state);
    const isOld = Date.now() - saidAt > SAID_SECONDS * 1000;
    if (changed.has("threadId") || (changed.has("thread") && isOld)) setText(said, "");
    if (changed.has("thread")) forgetSaid();
    showNeeds(state);
    showControls();
  }

  /** Read the values of the thread again when it, or its status, is another one.
   *
   * @param {State} state
   */
  function proposeValues({threadId, thread}) {
    const now = JSON.stringify([threadId, thread?.status]);
    if (now === proposedOf) return;
    proposedOf = now;
    values.load();
    resumeValues.load();
  }

  /** Open the field that a failed run needs: a higher limit, or a missing value.
   *
   * @param {State} state
   */
  function showNeeds(state) {
    const hasFailed = status() === "failed";
    const hit = hasFailed ? limitHit(state) : null;
    const hasPrices = hit?.name === "cost" || typeof state.thread?.cost === "string";
    limits.show(hit, hasPrices, state.about?.limits ?? {});
    resumeValues.show(hasFailed ? missingValue(lastFailed(state.bars)?.text ?? "") : null);
  }

  /** @type {string | null} */
  let draftOf = null;
  let isWatching = false;
  let proposedOf = ""; // the thread and status whose values the forms propose

  /** @param {string | null} threadId */
  function changeDraft(threadId) {
    if (threadId === draftOf) return;
    if (text.value.trim()) drafts.set(draftOf, text.value);
    if (drafts.size > MOST_DRAFTS) drafts.delete([...drafts.keys()][0]);
    // a message typed before the thread exists moves to the new thread
    text.value = drafts.get(threadId) ?? "";
    draftOf = threadId;
    fault.say("");
  }

  function showControls() {
    const now = status();
    const {threadId, line, about} = store.state;
    const why = about?.is_read_only ? READ_ONLY : line !== null ? OLD_LINE : "";
    const isResumable = ["failed", "stopped"].includes(now);
    for (const each of Object.values(controls)) each.disabled = Boolean(why);
    setText(controls.send, sendText(now, threadId));
    controls.send.classList.toggle("primary", !isResumable);
    controls.send.hidden = now === "paused";
    controls.queue.hidden = controls.stop.hidden = now !== "running";
    controls.drop.hidden = now !== "paused";
    controls.fresh.hidden = !threadId || now === "running" || !text.value.trim();
    resumePart.hidden = !isResumable;
    limits.node.hidden = !isResumable;
    startLimits.node.hidden = now === "running";
    startLimits.show(null, Boolean(about?.has_prices), about?.limits ?? {});
    setText(resumeText, RESUMES[now] ?? "");
    showStop();
    text.disabled = Boolean(why);
    setText(hint, why || (HINTS[now] ?? ""));
    hint.hidden = !hint.textContent;
  }

  function showStop() {
    const isAsked = isStopping();
    if (isAsked) controls.stop.disabled = true;
    setText(controls.stop, isAsked ? "Stopping…" : "Stop run");
    stops.hidden = !isAsked;
    const names = runningNames(store.state);
    setText(stops, isAsked ? `Waiting for steps in progress${names ? `: ${names}` : ""}` : "");
  }

  /** @param {State} state */
  function showBanner(state) {
    const {changed} = state.thread ?? {};
    const isFileNew = Boolean(state.about?.has_changed);
    /** @type {Entry[]} */
    const entries = [];
    if (isFileNew)
      entries.push(["file", 1, () => el("p", {}, el("b", {}, "The file of the tree has changed"))]);
    if (changed) entries.push(["changed", changed, () => changedView(changed)]);
    const canReload = state.about?.can_reload !== false;
    if (entries.length && canReload)
      entries.push(["reload", 1, () => actionButton("Reload tree", reload)]);
    putEntries(banner, entries);
    banner.hidden = entries.length === 0;
  }

  /** @param {State} state */
  function showQueued(state) {
    const texts = state.line === null ? (state.thread?.queued ?? []) : [];
    const title =
      texts.length === 1 ? "1 queued message" : `${texts.length} queued messages`;
    /** @type {Entry[]} */
    const entries = texts.map((each, i) => [i, each, () => longText(each, {most: 600})]);
    if (texts.length) entries.unshift(["title", title, () => el("h3", {}, title)]);
    putEntries(queued, entries);
  }

  return {node, update};
}

/**
 * @param {string} status
 * @param {string | null} threadId
 */
function sendText(status, threadId) {
  if (status in RESUMES) return "Start new turn";
  if (status === "running") return "Steer run";
  return threadId ? "Send message" : "Start run";
}

/** Return the names of the innermost running agents.
 *
 * @param {State} state
 */
function runningNames(state) {
  const bars = [...state.bars.values()].filter(
    (each) => each.kind === "agent" && each.state === "running",
  );
  /** @param {Bar} bar */
  const isInmost = ({address}) => !bars.some((other) => isAround(address, other.address));
  return [...new Set(bars.filter(isInmost).map((each) => each.agent_name))].slice(0, 8).join(", ");
}

/** Make the view of a changed tree: the effect on the thread, and the difference of the outlines.
 *
 * @param {string} changed
 */
function changedView(changed) {
  const [first, ...rest] = String(changed).split("\n");
  /** @param {string} line */
  const sign = (line) => (/^[+-](?![+-]{2})/.test(line) ? line[0] : " ");
  const lines = rest
    .slice(0, 200)
    .map((line) => el("div", {class: "line", "data-sign": sign(line)}, line));
  const title = el(
    "div",
    {role: "status"},
    el("b", {}, "The tree has changed. "),
    longText(first, {tag: "span"}),
  );
  return el("div", {}, title, lines.length ? el("div", {class: "diff"}, ...lines) : null);
}
