// The rewind panel: rerun from here, the versions of a thread, and their comparison.

import {el, newId, setText, shortText, timeText} from "./elements.js";
import {actionButton, putEntries, refusal} from "./entries.js";
import {lineName, makeCompareForm, makeComparison} from "./comparison.js";
import {makeAgain} from "./again.js";
import {activationBar, lookedAt} from "./looking.js";
import {makeVariants} from "./variants.js";

/** @import {Backend, Bar, Changed, State, Store} from "./page.d.ts" */
/** @import {Line, Spot} from "./shapes.d.ts" */
/** @import {LineOf} from "./comparison.js" */

const MOST_FORMS = 50; // maximum number of forms that keep their typed texts

/** Make the rewind panel.
 *
 * @param {Store} store
 * @param {Backend} backend
 */
export function makeMachine(store, backend) {
  const headingId = newId("machine");
  const comparison = makeComparison(store, backend);
  const compareForm = makeCompareForm(store, backend, comparison.compare, proposed);
  const variants = makeVariants(store, backend, (other) => compareWith({threadId: other, line: null}));
  const again = againPart(store, backend, variants.add);
  const lines = linesPart(store, backend, compareForm, compareWith);
  const againTitle = el("span", {}, againText(store.state));
  const parts = {
    again: partOf(againTitle, again.node, variants.node),
    lines: partOf("Thread versions", lines.node),
    compare: partOf("Compare", compareForm.node, comparison.node),
  };
  const node = el(
    "section",
    {class: "machine", "aria-labelledby": headingId},
    el("h2", {id: headingId}, "Rewind"),
    ...Object.values(parts),
  );
  /** @type {string | null} */
  let threadId = null;

  function openAgain() {
    parts.again.open = true;
    node.dispatchEvent(new CustomEvent("showdetails", {bubbles: true}));
    parts.again.scrollIntoView({block: "nearest"});
    parts.again.querySelector("summary")?.focus();
  }

  /** Return the threads that a thread is likely compared with.
   *
   * @param {string | null} id
   */
  function proposed(id) {
    return [comparison.other(id), ...variants.related(id)].filter((each) => each !== null);
  }

  /** Compare the current line of the open thread with another line.
   *
   * @param {LineOf} right
   */
  function compareWith(right) {
    parts.compare.open = true;
    compareForm.choose(right);
    comparison.compare({threadId: store.state.threadId ?? "", line: null}, right);
  }

  const refresh = () => update(store.state, new Set(["threadId"]));
  for (const part of Object.values(parts)) part.addEventListener("toggle", refresh);

  /**
   * @param {State} state
   * @param {Changed} changed
   */
  function update(state, changed) {
    if (state.threadId !== threadId) {
      ({threadId} = state);
      comparison.leave(threadId);
      variants.show();
    }
    setText(againTitle, againText(state));
    if (changed.has("wantsAgain")) openAgain();
    again.update(state, parts.again.open);
    compareForm.update(state);
    lines.update(state, parts.lines.open || parts.compare.open);
  }

  return {node, update};
}

/** @param {State} state */
function againText(state) {
  return `Rerun from ${shortText(activationBar(state)?.agent_name ?? "here", 60)}`;
}

/**
 * @param {string | Node} title
 * @param {Node[]} children
 */
function partOf(title, ...children) {
  return el("details", {class: "part"}, el("summary", {}, el("h3", {}, title)), ...children);
}

/** Make the part with the form for the selected activation.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {(point: Spot, threads: {[name: string]: string}) => unknown} isForked
 */
function againPart(store, backend, isForked) {
  const note = el("p", {class: "quiet"});
  const place = el("div");
  const node = el("div", {class: "again"}, note, place);
  /** @type {Map<string, HTMLFormElement>} */
  const forms = new Map(); // by activation, with their typed texts
  /** @type {string | null | undefined} */
  let key; // the selected activation, as JSON; undefined until the first update

  /**
   * @param {State} state
   * @param {boolean} isOpen
   */
  async function update(state, isOpen) {
    if (!isOpen) return;
    const wanted = state.threadId ? lookedAt(state) : null;
    const now = wanted && JSON.stringify(wanted);
    if (now === key) return;
    key = now;
    const known = now ? forms.get(now) : undefined;
    place.replaceChildren(...(known ? [known] : []));
    setText(note, known ? "" : noteText(wanted));
    if (known || !wanted || !now) return;
    try {
      const activation = await backend.call("activation", wanted);
      if (key !== now) return;
      const form = makeAgain(store, backend, wanted, activation, isForked);
      forms.set(now, form);
      if (forms.size > MOST_FORMS) forms.delete([...forms.keys()][0]);
      setText(note, "");
      place.replaceChildren(form);
    } catch (error) {
      if (key !== now) return;
      setText(note, error.message);
      key = null; // the next update retries
    }
  }

  return {node, update};
}

/** @param {Spot | null} wanted */
function noteText(wanted) {
  return wanted ? `From ${wanted.at}` : "Select an activation to rerun from it.";
}

/** Make the part with the history lines of the thread.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {ReturnType<typeof makeCompareForm>} compareForm
 * @param {(right: LineOf) => void} compare
 */
function linesPart(store, backend, compareForm, compare) {
  const fault = refusal();
  const list = el("ul", {class: "lines"});
  const node = el("div", {}, fault.node, list);
  /** @type {string | null} */
  let key = null; // the thread and version whose lines are read
  /** @type {Line[]} */
  let lines = [];

  /**
   * @param {State} state
   * @param {boolean} isOpen
   */
  async function update(state, isOpen) {
    const {threadId, thread} = state;
    if (!isOpen) return;
    const now = threadId && JSON.stringify([threadId, thread?.lines, thread?.status]);
    if (now !== key && !(threadId && !thread)) {
      key = now;
      fault.say("");
      /** @type {{lines?: Line[], error?: Error}} */
      const answer = threadId
        ? await backend.call("lines", {thread_id: threadId}).catch((error) => ({error}))
        : {lines: []};
      if (key !== now) return;
      if (answer.error) fault.say(answer.error.message);
      lines = answer.lines ?? [];
      compareForm.setLines(threadId, lines);
    }
    show(store.state);
  }

  /** @param {State} state */
  function show(state) {
    const {threadId} = state;
    if (!threadId) return putEntries(list, []);
    return putEntries(
      list,
      lines.map((line, i) => {
        const isLookedAt = state.line === (line.is_present ? null : line.head);
        return [line.head, [line, i, isLookedAt], () => lineView(threadId, line, i, isLookedAt)];
      }),
    );
  }

  /**
   * @param {string} threadId
   * @param {Line} line
   * @param {number} index
   * @param {boolean} isLookedAt
   */
  function lineView(threadId, line, index, isLookedAt) {
    const head = line.is_present ? null : line.head;
    const name = lineName(line, index);
    const row = el(
      "li",
      {"aria-current": isLookedAt ? "true" : undefined},
      el("b", {}, name),
      " ",
      el("span", {class: "quiet"}, timeText(line.time)),
      " ",
      line.parts_at.includes("/")
        ? el("code", {title: "branches off here"}, shortText(line.parts_at, 80))
        : null,
    );
    if (!isLookedAt) {
      row.append(
        actionButton("Open version", () => store.open(threadId, head), {"aria-label": `Open ${name}`}),
      );
    } else row.append(el("span", {class: "pill"}, "Open"));
    if (line.is_present) return row;
    const back = actionButton("Restore version", () => goBack(threadId, line.head, back), {
      "aria-label": `Restore ${name}`,
    });
    const differs = actionButton(
      "Compare version",
      () => compare({threadId, line: line.head}),
      {"aria-label": `Compare ${name}`},
    );
    row.append(back, differs);
    return row;
  }

  /** Make an older line the current one by rerunning its last step.
   *
   * @param {string} threadId
   * @param {string} line
   * @param {HTMLButtonElement} button
   */
  async function goBack(threadId, line, button) {
    fault.say("");
    button.disabled = true;
    try {
      const {bars} = await backend.call("timeline", {thread_id: threadId, line, last: 5});
      const steps = bars.filter(
        (each) => each.kind === "agent" && each.node && each.step && each.state !== "void",
      );
      const last = steps.reduce(
        (a, b) => (a && a.began > b.began ? a : b),
        /** @type {Bar | null} */ (null),
      );
      if (!last) throw new Error("This version has no step to rerun. Choose another.");
      await backend.call("rewind", {thread_id: threadId, at: last.step});
      store.open(threadId);
    } catch (error) {
      fault.say(error.message);
    }
    button.disabled = false;
  }

  return {node, update};
}
