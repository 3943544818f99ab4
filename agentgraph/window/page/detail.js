// One activation: what it saw and said, its tools, values, questions and attempts.

import {durationText, el, icon, longText, newId, setText, shortText, timeText} from "./elements.js";
import {actionButton, foldable, putEntries, tokensText} from "./entries.js";
import {changeView, valueChanges} from "./diff.js";
import {questionRest, questionText} from "./forms.js";
import {activationBar, lookAt, lookedAt, selectTarget} from "./looking.js";
import {dataView, messageEntries} from "./messages.js";

const SECONDS_BETWEEN = 0.4; // of two looks at an activation that changes
const NOTHING = "Select something that ran: a node of the tree, or a bar of the timeline.";
const SECTIONS = [
  ["error", "Error"],
  ["questions", "Questions"],
  ["said", "What it said"],
  ["tools", "Tools"],
  ["values", "Values"],
  ["saw", "What it saw"],
  ["attempts", "Earlier attempts"],
  ["remarks", "Remarks"],
];
const FOLDED = new Set(["attempts"]);

/** Make the panel of the activation that is looked at. */
export function makeDetail(store, backend) {
  const headingId = newId("detail");
  const heading = el("h2", {id: headingId}, "Activation");
  const head = el("div", {class: "about"});
  const note = el("p", {class: "quiet", role: "status"}, NOTHING);
  const sections = new Map(SECTIONS.map(([key, title]) => [key, sectionOf(title, !FOLDED.has(key))]));
  const live = el("div", {class: "live", "aria-busy": "true", hidden: true, dir: "auto"});
  sections.get("said").node.append(live);
  const node = el(
    "section",
    {class: "detail", "aria-labelledby": headingId},
    heading,
    note,
    head,
    ...[...sections.values()].map((each) => each.node),
  );

  let key = null; // what is looked at, as text
  let print = ""; // of its bar, as it was when it was read
  let data = null;
  let isReading = false;
  let timer = 0;
  let shownWhole = new Set(); // parts of which all messages are shown

  async function read() {
    timer = 0;
    const {state} = store;
    const wanted = lookedAt(state);
    if (!wanted || isReading) return;
    isReading = true;
    const asked = key;
    print = printOf(activationBar(state));
    try {
      const answer = await backend.call("activation", wanted);
      if (asked === key) {
        data = answer;
        setText(note, "");
        show();
      }
    } catch (error) {
      if (asked === key) setText(note, error.message);
    }
    isReading = false;
    if (asked !== key || print !== printOf(activationBar(store.state))) readSoon();
  }

  function readSoon() {
    timer ||= setTimeout(read, data ? SECONDS_BETWEEN * 1000 : 0);
  }

  function update(state, changed) {
    if (state.selected === null && changed.has("bars")) queueMicrotask(() => selectTarget(store));
    const wanted = lookedAt(state);
    const now = wanted && JSON.stringify(wanted);
    if (now !== key) {
      key = now;
      data = null;
      shownWhole = new Set();
      clearTimeout(timer);
      timer = 0;
      setText(note, wanted ? "" : NOTHING);
      show();
      read();
    } else if (wanted && changed.has("bars") && printOf(activationBar(state)) !== print) readSoon();
    if (changed.has("bars") || changed.has("selected")) showHead();
    if (changed.has("texts")) showLive();
  }

  function show() {
    showHead();
    const entries = data ? entriesOf(data) : {};
    for (const [name, {node: part, body}] of sections) {
      putEntries(body, entries[name] ?? []);
      part.hidden = !entries[name]?.length;
    }
    showLive();
  }

  function showLive() {
    const {state} = store;
    const bar = activationBar(state);
    const isRunning = bar?.state === "running" && state.line === null;
    const text = (isRunning && state.texts.get(bar.address)) || "";
    setText(live, text);
    live.hidden = !text;
    if (text) sections.get("said").node.hidden = false;
  }

  /** Return the parts of an attempt that was thrown away: of it, only its error is saved. */
  function voidParts(bar, {attempts = [], saw, remarks = []}) {
    const error = attempts.find((each) => each.step === bar.step && !each.line)?.error ?? bar.text;
    return {
      error: error ? [["error", error, () => errorView(error)]] : [],
      saw: messageEntries(saw ?? [], "saw", true, () => {}),
      remarks: remarks.map((each, i) => [i, each, () => longText(each)]),
    };
  }

  function entriesOf(activation) {
    const {error, remarks = [], attempts = [], tools = [], signal} = activation;
    const bar = activationBar(store.state);
    if (bar?.state === "void") return voidParts(bar, activation);
    const parts = (name, messages) =>
      messageEntries(messages ?? [], name, shownWhole.has(name), () => {
        shownWhole.add(name);
        show();
      });
    const said = parts("said", activation.said);
    if (signal)
      said.push(["signal", signal, () => el("div", {class: "signal"}, "signal ", dataView(signal))]);
    return {
      error: error ? [["error", error, () => errorView(error)]] : [],
      questions: (activation.questions ?? []).map((each, i) => [i, each, () => questionView(each)]),
      said,
      tools: tools.map((each, i) => [each.id ?? i, each, () => toolView(each)]),
      values: valueEntries(activation.values_before, activation.values_after),
      saw: parts("saw", activation.saw),
      attempts: attempts.map((each, i) => [
        i,
        each,
        () => attemptView(store, activation.address, each),
      ]),
      remarks: remarks.map((each, i) => [i, each, () => longText(each)]),
    };
  }

  function showHead() {
    const {state} = store;
    const bar = activationBar(state);
    const facts = bar || data ? {...bar, ...withoutEmpty(data)} : null;
    heading.replaceChildren(...(facts ? [icon(facts.kind), ` ${facts.agent_name}`] : ["Activation"]));
    putEntries(head, facts ? headEntries(store, facts, bar) : []);
  }

  return {node, update};
}

function sectionOf(title, open) {
  const body = el("div", {class: "entries"});
  const node = el(
    "details",
    {class: "part", hidden: true},
    el("summary", {}, el("h3", {}, title)),
    body,
  );
  node.open = open;
  return {node, body};
}

/** Return what of a bar makes it worth to read its activation again. */
function printOf(bar) {
  if (!bar) return "";
  return JSON.stringify([bar.id, bar.state, bar.ended, bar.tokens_in, bar.tokens_out, bar.text]);
}

function withoutEmpty(facts) {
  return Object.fromEntries(
    Object.entries(facts ?? {}).filter(([, each]) => each !== null && each !== ""),
  );
}

// the head

function headEntries(store, facts, bar) {
  const state = bar?.state ?? facts.status ?? "";
  const step = bar?.step ?? facts.steps?.at(-1);
  const tokens = facts.usage ?? {input: facts.tokens_in, output: facts.tokens_out};
  const took = facts.began && facts.ended ? facts.ended - facts.began : null;
  const words = [
    facts.turn === undefined ? "" : `turn ${facts.turn + 1}`,
    facts.iteration === null || facts.iteration === undefined ? "" : `iteration ${facts.iteration + 1}`,
    timeText(facts.began),
    took === null ? "" : `took ${durationText(took)}`,
    tokensText(tokens),
  ].filter(Boolean);
  const steps = (facts.steps?.length ?? 0) > 1 ? ` (${facts.steps.length} steps)` : "";
  const status = [state, words, steps];
  const entries = [
    ["address", facts.address, () => el("code", {class: "address"}, facts.address)],
    [
      "status",
      status,
      () =>
        el(
          "p",
          {class: "facts"},
          el("span", {class: "pill", "data-state": state}, state),
          ` ${words.join(" · ")}${steps}`,
        ),
    ],
  ];
  if (step) entries.push(["step", step, () => stepView(step)]);
  return [...entries, ...voidEntries(store, bar), ...lapEntries(store, bar)];
}

function stepView(step) {
  const said = el("span", {role: "status", class: "quiet"});
  const code = el("code", {tabindex: "0"}, step);
  const copy = actionButton(
    "Copy",
    async () => {
      try {
        await navigator.clipboard.writeText(step);
        said.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(code);
        said.textContent = "selected: press Ctrl+C";
      }
    },
    {"aria-label": "Copy the step", class: "small"},
  );
  return el("p", {class: "step"}, "step ", code, " ", copy, " ", said);
}

function voidEntries(store, bar) {
  if (bar?.state !== "void") return [];
  const {state} = store;
  const valid = [...state.bars.values()].find(
    (each) =>
      each.kind === "agent" &&
      each.state !== "void" &&
      each.address === bar.address &&
      each.turn === bar.turn,
  );
  const go = () => store.select(valid.id);
  return [
    [
      "void",
      valid?.id,
      () =>
        el(
          "p",
          {class: "note"},
          "This attempt was thrown away. ",
          valid ? actionButton("Go to the one that counts", go) : null,
        ),
    ],
  ];
}

/** Return the way to the other laps, items or calls of the same place. */
function lapEntries(store, bar) {
  if (!bar) return [];
  const laps = [...store.state.bars.values()]
    .filter(
      (each) =>
        each.kind === "agent" &&
        each.place === bar.place &&
        each.turn === bar.turn &&
        (each.state !== "void" || each.id === bar.id),
    )
    .sort((a, b) => a.began - b.began);
  if (laps.length < 2) return [];
  const print = [bar.id, laps.map((each) => [each.id, each.state])];
  return [["laps", print, () => lapsView(store, bar, laps)]];
}

function lapsView(store, bar, laps) {
  const at = laps.findIndex((each) => each.id === bar.id);
  const options = laps.map((each, i) =>
    el(
      "option",
      {value: each.id, selected: i === at},
      `${shortText(each.address, 80)} (${each.state})`,
    ),
  );
  const choose = el(
    "select",
    {"aria-label": "Other times that it ran", onchange: () => goTo(choose.selectedIndex)},
    ...options,
  );
  const goTo = (index) => {
    const panel = node.closest(".detail");
    const label = panel?.ownerDocument.activeElement?.getAttribute("aria-label");
    store.select(laps[index].id);
    panel?.querySelector(`.laps [aria-label="${CSS.escape(label ?? "")}"]`)?.focus();
  };
  const node = el(
    "p",
    {class: "laps"},
    "ran ",
    `${laps.length} times `,
    actionButton("‹", () => goTo(at - 1), {"aria-label": "The time before", disabled: at <= 0}),
    choose,
    actionButton("›", () => goTo(at + 1), {
      "aria-label": "The time after",
      disabled: at >= laps.length - 1,
    }),
  );
  return node;
}

// the parts

function errorView(error) {
  return longText(typeof error === "string" ? error : JSON.stringify(error, null, 2), {
    tag: "pre",
    most: 3000,
  });
}

function questionView({question, answer, is_answered: isAnswered = answer !== null}) {
  const asked = question?.value ?? question;
  const requests = asked?.action_requests ?? (asked?.type === "tool_approval" ? [asked] : []);
  const rest = questionRest(asked);
  return el(
    "div",
    {class: "asked"},
    longText(questionText(asked), {most: 1500}),
    ...requests.map(({name, args}) => el("div", {}, el("b", {}, shortText(name, 80)), dataView(args))),
    rest === undefined ? null : dataView(rest),
    !isAnswered
      ? el("p", {class: "quiet"}, "no answer yet")
      : el("div", {}, el("span", {class: "quiet"}, "answer "), dataView(answer)),
  );
}

function toolView(tool) {
  const {name, args, result, status, began, ended} = tool;
  const took = began && ended ? durationText(ended - began) : "";
  const title = [
    el("b", {}, shortText(name, 60)),
    " ",
    status ? el("span", {class: "pill", "data-state": status}, status) : "",
    el("span", {class: "quiet"}, ` ${took}`),
  ];
  const body = () =>
    el(
      "div",
      {class: "inside"},
      el("span", {class: "quiet"}, "arguments"),
      dataView(args),
      result === null || result === undefined ? null : el("span", {class: "quiet"}, "result"),
      result === null || result === undefined ? null : dataView(result),
    );
  return foldable(title, body, {open: true, class: "tool-call"});
}

function valueEntries(before, after) {
  const changes = valueChanges(before, after);
  const changed = changes.filter(([, how]) => how !== "same");
  const same = changes.filter(([, how]) => how === "same");
  const entries = changed.map(([name, how, old, now]) => [
    `value-${name}`,
    [how, old, now],
    () =>
      foldable([el("b", {}, shortText(name, 80)), ` ${how}`], () => changeView(how, old, now), {
        open: true,
        class: "value",
        "data-how": how,
      }),
  ]);
  if (!same.length) return entries;
  const rest = () =>
    el(
      "div",
      {},
      ...same.map(([name, , , now]) =>
        foldable(el("b", {}, shortText(name, 80)), () => dataView(now), {class: "value"}),
      ),
    );
  const title = changed.length ? `${same.length} unchanged` : `nothing changed: ${same.length} values`;
  return [...entries, ["same", same, () => foldable(title, rest, {class: "same"})]];
}

function attemptView(store, address, {step, status, error, text, line}) {
  const {threadId, bars} = store.state;
  const own = [...bars.values()].find(
    (bar) =>
      bar.kind === "agent" && bar.state === "void" && bar.address === address && bar.step === step,
  );
  const look = () => (line ? lookAt(store, {threadId, line, step, address}) : store.select(own.id));
  return el(
    "div",
    {class: "attempt"},
    status ? el("span", {class: "pill", "data-state": status}, status) : null,
    line ? el("span", {class: "quiet"}, " on an older line ") : " ",
    line || own ? actionButton("Look at it", look, {class: "small"}) : null,
    error || (text && text !== status) ? longText(error || text, {most: 400}) : null,
  );
}
