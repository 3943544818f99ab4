// Compares two versions of a thread, or two threads, activation by activation.

import {durationText, el, longText, newId, shortText} from "./elements.js";
import {actionButton, refusal, tokensText} from "./entries.js";
import {changeView, diffView, valueChanges} from "./diff.js";
import {lookAt} from "./looking.js";
import {shortAnswer} from "./parts.js";

/** @import {Backend, State, Store} from "./page.d.ts" */
/** @import {SideNames} from "./diff.js" */
/** @import {Data, Difference, Line, Side, TreeNode} from "./shapes.d.ts" */

const ROWS_AT_ONCE = 200;
/** @type {("left" | "right")[]} */
const SIDES = ["left", "right"];
/** @type {Record<string, string>} */
const DIFFERENCES = {
  said: "text differs",
  called: "tool calls differ",
  values: "values differ",
  signal: "signal differs",
  asked: "question differs",
  answered: "answer differs",
  error: "error differs",
};
/** @type {Record<string, "left" | "right" | undefined>} */
const ONLY = {removed: "left", added: "right"};
const CHOOSE = "Choose a thread …";

/** @typedef {Partial<Line>} AnyLine */

/**
 * A history line of a thread; null for the current one.
 *
 * @typedef {{threadId: string, line: string | null}} LineOf
 */

/** Make the comparison: {node, compare, leave, other}.
 *
 * @param {Store} store
 * @param {Backend} backend
 */
export function makeComparison(store, backend) {
  const only = el("input", {type: "checkbox", onchange: show});
  const title = el("p", {class: "result", role: "status"});
  const fault = refusal();
  const table = el("div", {class: "compared-rows"});
  const filter = el("label", {class: "check"}, only, "Differences only");
  const node = el("div", {class: "comparison"}, fault.node, title, filter, table);
  filter.hidden = true;
  /** @type {Difference[]} */
  let rows = [];
  /** @type {{left: LineOf, right: LineOf} | null} */
  let sides = null;
  let asked = 0; // number of the latest comparison; answers to earlier ones are ignored

  /** Compare two lines, each {threadId, line}.
   *
   * @param {LineOf} left
   * @param {LineOf} right
   */
  async function compare(left, right) {
    const number = clear();
    title.textContent = "Comparing …";
    const lines = {
      ...(left.line ? {line: left.line} : {}),
      ...(right.line ? {other_line: right.line} : {}),
    };
    try {
      const answer = await backend.call("compare", {
        thread_id: left.threadId,
        other: right.threadId,
        ...lines,
      });
      if (number !== asked) return;
      rows = answer.rows;
      sides = {left, right};
      only.checked = rows.some((row) => !row.same);
    } catch (error) {
      if (number !== asked) return;
      title.textContent = "";
      fault.say(error.message);
      return;
    }
    show();
    node.parentElement?.scrollIntoView({block: "nearest"});
  }

  function clear() {
    fault.say("");
    title.textContent = "";
    table.replaceChildren();
    filter.hidden = true;
    [rows, sides] = [[], null];
    return ++asked;
  }

  /** Return the other thread of the comparison, if a thread is one of its sides.
   *
   * @param {string | null} threadId
   */
  function other(threadId) {
    if (sides?.left.threadId === threadId) return sides.right.threadId;
    return sides?.right.threadId === threadId ? sides.left.threadId : null;
  }

  /** Clear the comparison when a thread is opened that is not one of its sides.
   *
   * @param {string | null} threadId
   */
  function leave(threadId) {
    if (other(threadId) === null) clear();
    else fault.say("");
  }

  function show() {
    const differing = rows.filter((row) => !row.same);
    title.textContent = `${rows.length} activations, ${differing.length} differ`;
    filter.hidden = false;
    const shown = only.checked ? differing : rows;
    const head = el(
      "div",
      {class: "compared heads"},
      el("span", {}, "Activation"),
      ...SIDES.map((side) => el("span", {}, sides && sideName(sides[side]))),
    );
    table.replaceChildren(head);
    showMore(shown, 0);
  }

  /**
   * @param {Difference[]} shown
   * @param {number} from
   */
  function showMore(shown, from) {
    table.append(...shown.slice(from, from + ROWS_AT_ONCE).map(rowView));
    const rest = shown.length - from - ROWS_AT_ONCE;
    if (rest <= 0) return;
    const more = actionButton(
      `Show ${Math.min(rest, ROWS_AT_ONCE)} more of ${shown.length}`,
      () => {
        more.remove();
        showMore(shown, from + ROWS_AT_ONCE);
      },
      {class: "show-all"},
    );
    table.append(more);
  }

  /** @param {Difference} row */
  function rowView(row) {
    const {where, same} = row;
    const named = row.differs.map((each) => DIFFERENCES[each] ?? each);
    const names = sides && {left: sideName(sides.left), right: sideName(sides.right)};
    const kinds = where === "both" ? named : [`only ${where}: ${names?.[where]}`];
    const place = el("div", {class: "difference", hidden: true});
    const toggle = actionButton(
      kinds.join(", ") || "differs",
      () => {
        if (!place.firstChild) place.append(differenceView(row, names ?? {}));
        place.hidden = !place.hidden;
        toggle.setAttribute("aria-expanded", String(!place.hidden));
      },
      {class: "differs", "aria-expanded": "false"},
    );
    const name = el(
      "div",
      {class: "name"},
      el("code", {}, row.address),
      el("small", {}, ` turn ${row.turn + 1} `),
      same ? el("small", {}, "same") : toggle,
    );
    return el(
      "div",
      {class: "compared", "data-where": where, "data-same": String(same)},
      name,
      ...SIDES.map((side) => cellView(row, side)),
      place,
    );
  }

  /**
   * @param {Difference} row
   * @param {"left" | "right"} side
   */
  function cellView(row, side) {
    const cell = row[side];
    if (!cell || !sides) return el("span", {class: "cell missing"}, "did not run");
    const {text, error, tokens, seconds, step} = cell;
    const facts = [tokensText(tokens), durationText(seconds)].filter(Boolean).join(" · ");
    const own = sides[side];
    const open = () => lookAt(store, {...own, step, address: row.address, turn: row.turn});
    const said = shortText(error || text || withoutText(row, cell), 160);
    const gist = el("span", {class: error ? "bad" : ""}, said);
    const button = actionButton(gist, open, {
      class: "cell",
      "data-side": side,
      title: "Open activation",
    });
    button.append(el("small", {}, facts));
    return button;
  }

  /** Return the text for an activation without messages.
   *
   * @param {Difference} row
   * @param {Side} side
   */
  function withoutText({place, differs}, {seconds}) {
    if (seconds !== null) return "(no text)";
    const {about} = store.state;
    const isHuman = about && placeOf(about.tree, place)?.kind === "human";
    const asks = isHuman || differs.includes("asked");
    return asks ? "question is open" : "not finished";
  }

  return {node, compare, leave, other};
}

/**
 * @param {TreeNode} tree
 * @param {string | null} id
 * @returns {TreeNode | null}
 */
function placeOf(tree, id) {
  if (tree.id === id) return tree;
  for (const child of tree.children) {
    const found = placeOf(child, id);
    if (found) return found;
  }
  return null;
}

/** @param {LineOf} side */
function sideName({threadId, line}) {
  return shortText(line ? `${threadId}, older version` : threadId, 60);
}

/** @param {Data[] | undefined} answers */
function answersText(answers = []) {
  return answers.map((each) => (each === null ? "no answer" : shortAnswer(each))).join("\n");
}

/**
 * @param {Difference} row
 * @param {SideNames} sides
 */
function differenceView(row, sides) {
  const parts = [...answersView(row, sides), ...textsView(row, sides), ...changedValuesView(row, sides)];
  return el("div", {}, ...(parts.length ? parts : [longText("The activations differ in input or cost.")]));
}

/**
 * @param {Difference} row
 * @param {SideNames} sides
 */
function answersView(row, sides) {
  if (!row.differs.includes("answered")) return [];
  const [a, b] = [answersText(row.left?.answers), answersText(row.right?.answers)];
  return [el("h4", {}, "answer"), diffView(a, b, sides)];
}

/**
 * @param {Difference} row
 * @param {SideNames} sides
 */
function textsView({left, right}, sides) {
  return /** @type {const} */ (["text", "error"]).flatMap((key) => {
    const [a, b] = [left?.[key] ?? "", right?.[key] ?? ""];
    return a === b ? [] : [el("h4", {}, key), diffView(a, b, sides)];
  });
}

/**
 * @param {Difference} row
 * @param {SideNames} sides
 */
function changedValuesView({left, right}, sides) {
  const changes = valueChanges(left?.values, right?.values).filter(([, how]) => how !== "same");
  return changes.flatMap(([name, how, a, b]) => {
    const where = ONLY[how];
    const note = where ? el("small", {}, `only ${where}: ${sides[where]}`) : null;
    return [el("h4", {}, shortText(name, 80), " ", note), changeView(how, a, b, sides)];
  });
}

/**
 * Make the form that chooses two sides: {node, update, setLines, choose}. It calls
 * `compare(left, right)`; `proposed(threadId)` returns likely threads, the likeliest first.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {(left: LineOf, right: LineOf) => unknown} compare
 * @param {(threadId: string | null) => string[]} proposed
 */
export function makeCompareForm(store, backend, compare, proposed) {
  const ids = [newId("compare"), newId("compare"), newId("compare")];
  const own = el("select", {id: ids[0], onchange: showButton});
  const thread = el("select", {id: ids[1], onchange: readLines});
  const other = el("select", {id: ids[2], onchange: showButton});
  const button = el("button", {}, "Compare versions");
  const hint = el("small", {role: "status"});
  const form = el(
    "form",
    {class: "compare-form", onsubmit: submit},
    el("label", {for: ids[0]}, "This thread"),
    own,
    el("label", {for: ids[1]}, "with thread"),
    thread,
    el("label", {for: ids[2]}, "version"),
    other,
    el("div", {class: "row"}, button, hint),
  );
  /** @type {AnyLine[]} */
  let ownLines = [];
  /** @type {string | null} */
  let threadId = null;
  let options = ""; // the shown threads, as JSON
  /** @type {string | null} */
  let wantedLine = null; // the other thread's line to choose once its lines are known

  /**
   * @param {HTMLSelectElement} select
   * @param {AnyLine[]} lines
   * @param {string} [pick]
   */
  function put(select, lines, pick) {
    const before = select.value;
    const values = lines.map((each) => (each.is_present ? "" : each.head ?? ""));
    select.replaceChildren(
      ...lines.map((each, i) => el("option", {value: values[i]}, lineName(each, i))),
    );
    const wanted = [pick, before].filter((each) => each !== undefined);
    select.value = wanted.find((each) => values.includes(each)) ?? values[0] ?? "";
  }

  /** @param {AnyLine[]} lines */
  function older(lines) {
    return lines.find((each) => !each.is_present)?.head;
  }

  /** Show the lines of the thread; propose an older one to compare with the current one.
   *
   * @param {string | null} id
   * @param {Line[]} lines
   */
  function setLines(id, lines) {
    if (id !== store.state.threadId) return;
    const hadOlder = older(ownLines);
    ownLines = lines;
    put(own, lines);
    showThreads(store.state);
    if (!thread.value && older(lines)) thread.value = id ?? "";
    if (thread.value === id) put(other, lines, wantedLine ?? (hadOlder ? undefined : older(lines)));
    if (lines.length) wantedLine = null;
    showButton();
  }

  async function readLines() {
    const id = thread.value;
    other.replaceChildren();
    showButton();
    if (!id) return;
    if (id === threadId) {
      if (!ownLines.length) return; // the lines are being read
      put(other, ownLines, wantedLine ?? older(ownLines));
    } else {
      /** @type {{lines: AnyLine[]}} */
      const answer = await backend
        .call("lines", {thread_id: id})
        .catch(() => ({lines: [{is_present: true}]}));
      if (thread.value !== id) return;
      put(other, answer.lines, wantedLine ?? undefined);
    }
    wantedLine = null;
    showButton();
  }

  function showButton() {
    const isItself = thread.value === threadId && own.value === other.value;
    hint.textContent = !thread.value
      ? "Choose another thread."
      : isItself
        ? "Both sides are the same version. Choose another."
        : "";
    button.disabled = Boolean(hint.textContent);
    other.disabled = !thread.value;
  }

  /** @param {SubmitEvent} event */
  function submit(event) {
    event.preventDefault();
    if (button.disabled || !threadId) return;
    compare({threadId, line: own.value || null}, {threadId: thread.value, line: other.value || null});
  }

  /** Choose the side to compare with the open thread.
   *
   * @param {LineOf} right
   */
  function choose(right) {
    own.value = "";
    wantedLine = right.line ?? "";
    showThreads(store.state, right.threadId);
    thread.value = right.threadId;
    readLines();
  }

  /** List the known threads; the chosen one stays chosen.
   *
   * @param {State} state
   * @param {string} [wanted]
   */
  function showThreads(state, wanted = thread.value) {
    const listed = (state.threads?.threads ?? []).map((each) => each.thread_id);
    const known = new Set([...proposed(threadId), ...listed, wanted].filter(Boolean));
    known.delete(threadId ?? "");
    const isOwn = ownLines.length > 1 || wanted === threadId;
    const now = JSON.stringify([threadId, isOwn, [...known].sort()]);
    if (now === options) return;
    options = now;
    thread.replaceChildren(
      el("option", {value: ""}, CHOOSE),
      ...(isOwn && threadId ? [el("option", {value: threadId}, "this thread")] : []),
      ...[...known].map((each) => el("option", {value: each}, each)),
    );
    thread.value = wanted;
  }

  /** @param {State} state */
  function update(state) {
    if (state.threadId !== threadId) {
      ({threadId} = state);
      ownLines = [];
      wantedLine = null;
      put(own, [{is_present: true}]);
      showThreads(state, proposed(threadId)[0] ?? "");
      readLines();
    } else showThreads(state);
  }

  return {node: form, update, setLines, choose};
}

/** Return the name of a history line.
 *
 * @param {AnyLine} line
 * @param {number} index
 */
export function lineName({is_present: isPresent, turn, parts_at: at}, index) {
  if (isPresent) return "current version";
  const where = at ? `, branches off in turn ${(turn ?? 0) + 1}` : "";
  return `older version ${index}${where}`;
}
