// Two lines or two threads compared, activation by activation; what differs is marked.

import {durationText, el, longText, newId, shortText} from "./elements.js";
import {actionButton, refusal, tokensText} from "./entries.js";
import {changeView, diffView, valueChanges} from "./diff.js";
import {lookAt} from "./looking.js";

const ROWS_AT_ONCE = 200;
const SIDES = ["left", "right"];

/** Make the comparison: {node, compare}. */
export function makeComparison(store, backend) {
  const only = el("input", {type: "checkbox", onchange: show});
  const title = el("p", {class: "result", role: "status"});
  const fault = refusal();
  const table = el("div", {class: "compared-rows"});
  const filter = el("label", {class: "check"}, only, "Only what differs");
  const node = el("div", {class: "comparison"}, fault.node, title, filter, table);
  filter.hidden = true;
  let rows = [];
  let sides = {};

  /** Compare two lines, each {threadId, line}. */
  async function compare(left, right) {
    fault.say("");
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
      rows = answer.rows;
      sides = {left, right};
    } catch (error) {
      title.textContent = "";
      fault.say(error.message);
      return;
    }
    show();
    node.scrollIntoView({block: "nearest"});
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
      ...SIDES.map((side) => el("span", {}, sideName(sides[side]))),
    );
    table.replaceChildren(head);
    showMore(shown, 0);
  }

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

  function rowView(row) {
    const {where = "both", same} = row;
    const kinds = where === "both" ? differences(row) : [`only ${where}`];
    const place = el("div", {class: "difference", hidden: true});
    const toggle = actionButton(
      kinds.join(", ") || "differs",
      () => {
        if (!place.firstChild) place.append(differenceView(row));
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
      {class: "compared", "data-where": where, "data-same": String(Boolean(same))},
      name,
      ...SIDES.map((side) => cellView(row, side)),
      place,
    );
  }

  function cellView(row, side) {
    const cell = row[side];
    if (!cell) return el("span", {class: "cell missing"}, "did not run");
    const {text, error, tokens, seconds, step} = cell;
    const facts = [tokensText(tokens), durationText(seconds)].filter(Boolean).join(" · ");
    const open = () => lookAt(store, {...sides[side], step, address: row.address, turn: row.turn});
    const gist = el("span", {class: error ? "bad" : ""}, shortText(error || text || "(no text)", 160));
    const button = actionButton(gist, open, {
      class: "cell",
      "data-side": side,
      title: "Look at this activation",
    });
    button.append(el("small", {}, facts));
    return button;
  }

  return {node, compare};
}

function sideName({threadId, line}) {
  return line ? `${threadId}, an older line` : threadId;
}

/** Return what differs between the two sides of a row. */
function differences({left, right}) {
  const kinds = [];
  if ((left?.text ?? "") !== (right?.text ?? "")) kinds.push("text");
  if (valueChanges(left?.values, right?.values).some(([, how]) => how !== "same")) kinds.push("values");
  if ((left?.error ?? "") !== (right?.error ?? "")) kinds.push("error");
  return kinds;
}

function differenceView(row) {
  const {left, right} = row;
  const parts = [];
  const sides = {left: "left", right: "right"};
  for (const key of ["text", "error"]) {
    const [a, b] = [left?.[key] ?? "", right?.[key] ?? ""];
    if (a !== b) parts.push(el("h4", {}, key), diffView(String(a), String(b), sides));
  }
  for (const [name, how, a, b] of valueChanges(left?.values, right?.values)) {
    if (how === "same") continue;
    const only = {added: "only right", removed: "only left"}[how] ?? "";
    parts.push(
      el("h4", {}, shortText(name, 80), " ", el("small", {}, only)),
      changeView(how, a, b, sides),
    );
  }
  if (!parts.length) parts.push(longText("They differ in what they saw or cost."));
  return el("div", {}, ...parts);
}

/** Make the choice of what is compared: {node, update}; `chosen(left, right)` is told. */
export function makeCompareForm(store, backend, chosen) {
  const ids = [newId("compare"), newId("compare"), newId("compare"), newId("compare")];
  const own = el("select", {id: ids[0]});
  const thread = el("input", {id: ids[1], list: ids[3], autocomplete: "off", onchange: readLines});
  const other = el("select", {id: ids[2]});
  const names = el("datalist", {id: ids[3]});
  const form = el(
    "form",
    {class: "compare-form", onsubmit: submit},
    el("label", {for: ids[0]}, "This thread"),
    own,
    el("label", {for: ids[1]}, "with thread"),
    thread,
    names,
    el("label", {for: ids[2]}, "line"),
    other,
    el("button", {}, "Compare"),
  );
  let ownLines = [];
  let threadId = null;

  function put(select, lines, pick) {
    const before = select.value;
    select.replaceChildren(
      ...lines.map((each, i) =>
        el("option", {value: each.is_present ? "" : each.head}, lineName(each, i)),
      ),
    );
    const values = lines.map((each) => (each.is_present ? "" : each.head));
    select.value = pick ?? (values.includes(before) ? before : (values[0] ?? ""));
  }

  /** Show the lines of the thread; an older one is proposed to be compared with the present one. */
  function setLines(id, lines) {
    const isOther = id !== threadId;
    threadId = id;
    ownLines = lines;
    put(own, lines);
    if (isOther) thread.value = id ?? "";
    if (thread.value === id)
      put(other, lines, isOther ? lines.find((each) => !each.is_present)?.head : undefined);
  }

  async function readLines() {
    const id = thread.value.trim();
    if (id === threadId) return put(other, ownLines);
    const answer = await backend
      .call("lines", {thread_id: id})
      .catch(() => ({lines: [{is_present: true}]}));
    return thread.value.trim() === id && put(other, answer.lines);
  }

  function submit(event) {
    event.preventDefault();
    const id = thread.value.trim() || threadId;
    chosen({threadId, line: own.value || null}, {threadId: id, line: other.value || null});
  }

  function update(state) {
    const known = (state.threads?.threads ?? []).map((each) => each.thread_id);
    if (known.join() !== names.dataset.known) {
      names.dataset.known = known.join();
      names.replaceChildren(...known.map((each) => el("option", {value: each})));
    }
  }

  return {node: form, update, setLines};
}

/** Return what a line is called. */
export function lineName({is_present: isPresent, turn, parts_at: at}, index) {
  if (isPresent) return "the present line";
  const where = at ? `, parts in turn ${(turn ?? 0) + 1}` : "";
  return `older line ${index}${where}`;
}
