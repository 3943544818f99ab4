// The form for the limits of a turn that starts or resumes, and what a failed run needs.

import {el, shortText} from "./elements.js";

/** @import {State} from "./page.d.ts" */
/** @import {About, Limits} from "./shapes.d.ts" */

/** @type {Record<string, string>} */
const LIMITS = {
  steps: "Steps",
  model_calls: "Model calls",
  tokens: "Tokens",
  cost: "Cost",
  seconds: "Seconds",
  transfers: "Transfers",
};

const FRACTIONS = new Set(["cost", "seconds"]);

/** @typedef {{name: string, value: number, of: string | undefined}} Hit */

/** Return the limit that a thread has reached, from its failed bars: {name, value, of}, or null.
 *
 * @param {State} state
 * @returns {Hit | null}
 */
export function limitHit(state) {
  const failed = [...state.bars.values()].filter((each) => each.state === "failed");
  for (const {text = ""} of failed.reverse()) {
    const [, name, of, value] =
      /Limits\.(\w+)(?: of '([^']*)')?, which is ([\d.]+) for a turn/.exec(text) ?? [];
    if (name in LIMITS) return {name, value: Number(value), of};
  }
  return null;
}

const MISSING = [
  /the template names \{([^}]+)\}, but the run has no value/,
  /ctx\.values has no '([^']+)' \(available/,
  /names the value '([^']+)', which is not in the run/,
];

/** Return the name of the missing value of a failed activation; null for other errors.
 *
 * @param {string} error
 */
export function missingValue(error) {
  for (const form of MISSING) {
    const [, name] = form.exec(error) ?? [];
    if (name) return name;
  }
  return null;
}

/** Make the form for limits: {node, read, clear, show}; a cost is sent as text, which is exact. */
export function limitsForm() {
  const inputs = new Map(
    Object.keys(LIMITS).map((name) => [
      name,
      el("input", {
        type: "number",
        min: name === "cost" ? 0 : 1,
        step: FRACTIONS.has(name) ? "any" : 1,
      }),
    ]),
  );
  const fields = [...inputs].map(([name, input]) => el("label", {}, LIMITS[name], input));
  const cost = inputs.get("cost")?.parentElement;
  const note = el("p", {class: "limit-note", hidden: true});
  const node = el(
    "details",
    {class: "limits", hidden: true},
    el("summary", {}, "Turn limits"),
    note,
    el("small", {}, "Without a number, the shown limit holds."),
    el("div", {class: "fields"}, ...fields),
  );
  let shown = "";
  /** @type {[input: HTMLInputElement, value: string] | null} */
  let proposed = null;
  return {
    node,
    /** @returns {Limits | null} */
    read() {
      const set = [...inputs].filter(([, input]) => input.value !== "");
      return set.length
        ? Object.fromEntries(
            set.map(([name, input]) => [name, name === "cost" ? input.value : Number(input.value)]),
          )
        : null;
    },
    clear() {
      for (const input of inputs.values()) input.value = "";
      node.open = false;
    },
    /**
     * Show the limits that hold without others. Show the reached one and propose twice its value, once for
     * each time.
     *
     * @param {Hit | null} hit
     * @param {boolean} hasPrices
     * @param {About["limits"]} present
     */
    show(hit, hasPrices, present) {
      if (cost) cost.hidden = !hasPrices;
      for (const [name, input] of inputs) input.placeholder = String(present[name] ?? "no limit");
      const now = hit ? JSON.stringify(hit) : "";
      if (now === shown) return;
      shown = now;
      note.hidden = !hit;
      if (proposed && proposed[0].value === proposed[1]) proposed[0].value = "";
      proposed = null;
      if (!hit) return;
      const reached = `The limit of ${hit.value} ${LIMITS[hit.name].toLowerCase()} was reached.`;
      note.textContent = hit.of
        ? `${reached} It belongs to ${shortText(hit.of, 60)}. Raise it in the tree's file, and reload.`
        : `${reached} Resume with a higher limit:`;
      const input = inputs.get(hit.name);
      if (!hit.of && input?.value === "") {
        proposed = [input, String(2 * hit.value)];
        input.value = proposed[1];
      }
      node.open = true;
    },
  };
}
