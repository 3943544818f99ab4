// The facts of an activation: its address, state and step, and links to the other runs of its place.

import {countText, durationText, el, focusIn, shortText, timeText} from "./elements.js";
import {actionButton, foldable} from "./entries.js";
import {stateText} from "./states.js";
import {makeMeasure} from "./work.js";

/** @import {Bar, Entry, Store} from "./page.d.ts" */
/** @import {Activation} from "./shapes.d.ts" */

const COMPOSITES = new Set(["sequential", "loop", "parallel", "workflow", "each", "switch", "swarm"]);

/**
 * The known facts of an activation: from its report, its bar, or both.
 *
 * @typedef {Partial<Omit<Bar, "kind" | "began" | "state"> & Omit<Activation, "kind">>} Known
 * @typedef {Known & {kind?: string}} Facts
 */

/** Return the entries (see `putEntries`) for the facts of an activation; `bar` is its bar, if known.
 *
 * @param {Store} store
 * @param {Facts} facts
 * @param {Bar | undefined} bar
 */
export function factEntries(store, facts, bar) {
  const state = bar?.state ?? facts.status ?? "";
  const step = bar?.step ?? facts.steps?.at(-1);
  const {took, waited} = lengthsOf(store, facts, bar);
  const words = [
    facts.turn === undefined ? "" : `turn ${facts.turn + 1}`,
    facts.iteration === null || facts.iteration === undefined ? "" : `iteration ${facts.iteration + 1}`,
    timeText(facts.began),
    took === null ? "" : `took ${durationText(took)}${stepsText(facts.steps)}`,
    waited ? `waited ${durationText(waited)}` : "",
    ownTokensText(facts, state),
  ].filter(Boolean);
  const status = [state, words];
  /** @type {Entry[]} */
  const entries = [
    ["address", facts.address, () => el("code", {class: "address"}, facts.address)],
    [
      "status",
      status,
      () =>
        el(
          "p",
          {class: "facts"},
          el("span", {class: "pill", "data-state": state}, stateText(state)),
          ` ${words.join(" · ")}`,
        ),
    ],
  ];
  entries.push(...againEntries(store));
  if (step) entries.push(["ids", step, () => foldable("Ids", () => stepView(step), {class: "ids"})]);
  return [...entries, ...voidEntries(store, bar), ...lapEntries(store, bar)];
}

/** Return the seconds that an ended activation took, and those that its questions waited.
 *
 * @param {Store} store
 * @param {Facts} facts
 * @param {Bar | undefined} bar
 */
function lengthsOf({state}, facts, bar) {
  if (!bar) return {took: facts.began && facts.ended ? facts.ended - facts.began : null, waited: 0};
  const {seconds, waited} = makeMeasure(state.bars.values(), state.pauses)(bar);
  return {took: bar.ended === null ? null : seconds, waited};
}

/** @param {string[] | undefined} steps */
function stepsText(steps) {
  const count = steps?.length ?? 0;
  return count > 1 ? ` in ${count} steps` : "";
}

/**
 * @param {Facts} facts
 * @param {string} state
 */
function ownTokensText({kind, usage, tokens_in: tokensIn, tokens_out: tokensOut}, state) {
  const input = usage?.input ?? tokensIn ?? 0;
  const output = usage?.output ?? tokensOut ?? 0;
  const ofChat = kind === "chat" ? " (own)" : "";
  const whose = COMPOSITES.has(kind ?? "") ? " (all inside)" : ofChat;
  const [into, out] = [countText(input), countText(output)];
  if (input || output) return `tokens: ${into} in, ${out} out${whose}`;
  return kind === "chat" && state === "done" ? "tokens: not reported" : "";
}

/** Return the button to the rewind panel, which `wantsAgain` opens.
 *
 * @param {Store} store
 * @returns {Entry[]}
 */
function againEntries({state, set}) {
  if (state.about?.is_read_only) return [];
  const go = () => set({wantsAgain: true});
  return [["again", 1, () => el("p", {class: "again-here"}, actionButton("Rerun from here", go))]];
}

/** @param {string} step */
function stepView(step) {
  const said = el("span", {role: "status", class: "quiet"});
  const code = el("code", {tabindex: "0"}, step);
  const copy = actionButton(
    "Copy step",
    async () => {
      try {
        await navigator.clipboard.writeText(step);
        said.textContent = "Copied";
      } catch {
        getSelection()?.selectAllChildren(code);
        said.textContent = "Selected. Press Ctrl+C";
      }
    },
    {class: "small"},
  );
  const label = el("span", {class: "nowrap"}, "step");
  return el("p", {class: "step"}, label, " ", code, " ", copy, " ", said);
}

/**
 * @param {Store} store
 * @param {Bar | undefined} bar
 * @returns {Entry[]}
 */
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
  const go = () => store.select(valid?.id ?? null);
  return [
    [
      "void",
      valid?.id,
      () =>
        el(
          "p",
          {class: "note"},
          "This attempt was discarded. ",
          valid ? actionButton("Open valid attempt", go) : null,
        ),
    ],
  ];
}

/** Return the links to the other iterations, items or calls of the same place.
 *
 * @param {Store} store
 * @param {Bar | undefined} bar
 * @returns {Entry[]}
 */
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

/**
 * @param {Store} store
 * @param {Bar} bar
 * @param {Bar[]} laps
 */
function lapsView(store, bar, laps) {
  const at = laps.findIndex((each) => each.id === bar.id);
  const options = laps.map((each, i) =>
    el(
      "option",
      {value: each.id, selected: i === at},
      `${shortText(each.address, 80)} (${stateText(each.state)})`,
    ),
  );
  /** @type {HTMLSelectElement} */
  const choose = el(
    "select",
    {"aria-label": "Other runs", onchange: () => goTo(choose.selectedIndex)},
    ...options,
  );
  /** @param {number} index */
  const goTo = (index) => {
    const panel = node.closest(".detail");
    const label = focusIn(node)?.getAttribute("aria-label");
    store.select(laps[index].id);
    const same = panel?.querySelector(`.laps [aria-label="${CSS.escape(label ?? "")}"]`);
    if (same instanceof HTMLElement) same.focus();
  };
  const node = el(
    "p",
    {class: "laps"},
    el("span", {class: "nowrap"}, `ran ${laps.length} times`),
    " ",
    actionButton("‹", () => goTo(at - 1), {"aria-label": "Previous run", disabled: at <= 0}),
    choose,
    actionButton("›", () => goTo(at + 1), {
      "aria-label": "Next run",
      disabled: at >= laps.length - 1,
    }),
  );
  return node;
}
