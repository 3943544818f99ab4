// What is looked at: which activation a selected bar stands for, and how to go to one.

/** Return the bar of an activation that a bar belongs to: calls of models and tools are inside one. */
export function activationBar(state, id = state.selected) {
  let bar = state.bars.get(id);
  while (bar && bar.kind !== "agent" && state.bars.has(bar.inside)) bar = state.bars.get(bar.inside);
  return bar;
}

/** Return what names the activation that is looked at, as the server's calls take it; null for none. */
export function lookedAt(state) {
  const bar = activationBar(state);
  if (bar) {
    const isOld = bar.state === "void" || state.line !== null;
    const at = isOld && bar.step ? {at: bar.step} : {at: bar.address, turn: bar.turn};
    return {thread_id: state.threadId, ...at, ...(state.line ? {line: state.line} : {})};
  }
  const wanted = state.target?.wanted;
  if (!wanted || wanted.thread_id !== state.threadId || (wanted.line ?? null) !== state.line)
    return null;
  return wanted;
}

/** Look at an activation, by its step or its address and turn, also of another thread or line. */
export function lookAt(store, {threadId, line = null, step, address, turn}) {
  if (threadId !== store.state.threadId || line !== store.state.line) store.open(threadId, line);
  const at = step ? {at: step} : {at: address, turn};
  const wanted = {thread_id: threadId, ...at, ...(line ? {line} : {})};
  store.set({target: {wanted, step, address, turn}, selected: null});
  selectTarget(store);
}

/** Select the bar of the activation that is looked at, once there is one. */
export function selectTarget(store) {
  const {state} = store;
  if (state.selected !== null || !lookedAt(state)) return;
  const {step, address, turn} = state.target;
  const isIt = (bar) =>
    bar.kind === "agent" &&
    bar.state !== "void" &&
    (!step || bar.step === step) &&
    (!address || bar.address === address) &&
    (step || turn === undefined || bar.turn === turn);
  const found = [...state.bars.values()].filter(isIt);
  const inmost = found.reduce((a, b) => (a && a.address.length > b.address.length ? a : b), null);
  if (inmost) store.set({selected: inmost.id, target: null});
}
