// The states of threads and activations, as signs and as labels.

/** @import {ShownState} from "./page.d.ts" */

/**
 * The states of a bar.
 *
 * @type {ShownState[]}
 */
export const STATES = ["running", "asks", "failed", "stopped", "done", "void"];

/** @type {Record<string, string>} */
export const STATUS_MARKS = {
  running: "●", paused: "?", asks: "?", failed: "✕", stopped: "■", done: "✓", void: "⊘", idle: "○",
  new: "○",
};

/** @type {Record<string, string>} */
const LABELS = {idle: "Not run", asks: "Paused", void: "Discarded", waits: "Waiting"};

/** Return the label of a state or status: "running" is "Running".
 *
 * @param {string} state
 */
export function stateText(state) {
  return LABELS[state] ?? state.charAt(0).toUpperCase() + state.slice(1);
}
