// The selected activation: finds it for a selected bar, and opens one.

/** @import {Bar, State, Store, Target} from "./page.d.ts" */
/** @import {Spot} from "./shapes.d.ts" */

/** Return the bar of the activation that contains a bar, such as a model or tool call.
 *
 * @param {State} state
 * @param {string | null} [id]
 */
export function activationBar(state, id = state.selected) {
  let bar = state.bars.get(id ?? "");
  while (bar && bar.kind !== "agent" && state.bars.has(bar.inside ?? "")) {
    bar = state.bars.get(bar.inside ?? "");
  }
  return bar;
}

/** Return the selected activation as arguments for the server's calls; null for none.
 *
 * @param {State} state
 * @returns {Spot | null}
 */
export function lookedAt(state) {
  const bar = activationBar(state);
  if (bar && state.threadId) {
    const isOld = bar.state === "void" || state.line !== null;
    const at = isOld && bar.step ? {at: bar.step} : {at: bar.address, turn: bar.turn};
    return {thread_id: state.threadId, ...at, ...(state.line ? {line: state.line} : {})};
  }
  const wanted = state.target?.wanted;
  if (!wanted || wanted.thread_id !== state.threadId || (wanted.line ?? null) !== state.line)
    return null;
  return wanted;
}

/** Open an activation by its step, or by its address and turn, also of another thread or line.
 *
 * @param {Store} store
 * @param {{threadId: string, line?: string | null, step?: string, address?: string, turn?: number}} spot
 */
export function lookAt(store, {threadId, line = null, step, address, turn}) {
  if (threadId !== store.state.threadId || line !== store.state.line) store.open(threadId, line);
  const at = step ? {at: step} : {at: address ?? "", turn};
  const wanted = {thread_id: threadId, ...at, ...(line ? {line} : {})};
  store.set({target: {wanted, step, address, turn}, selected: null});
  selectTarget(store);
}

/** Select the bar of the open activation once the bar exists.
 *
 * @param {Store} store
 */
export function selectTarget(store) {
  const {state} = store;
  if (state.selected !== null || !state.target || !lookedAt(state)) return;
  const {step, address, turn} = state.target;
  /** @param {Bar} bar */
  const isIt = (bar) =>
    bar.kind === "agent" &&
    bar.state !== "void" &&
    (!step || bar.step === step) &&
    (!address || bar.address === address) &&
    (step || turn === undefined || bar.turn === turn);
  const found = [...state.bars.values()].filter(isIt);
  const inmost = found.reduce(
    (a, b) => (a && a.address.length > b.address.length ? a : b),
    /** @type {Bar | null} */ (null),
  );
  if (!inmost) return;
  store.set({target: null});
  store.select(inmost.id);
}
