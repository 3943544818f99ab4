// What the window knows: one state, which panels read, and which says what has changed.
//
// A panel is made by `makeSomething(store, backend)` and is {node, update(state, changed)}: `node` is its
// element, `update` is called with the state and the Set of keys that have changed.

export function makeStore(backend) {
  const state = {
    about: null, // what the call "about" returned: {title, tree}
    threadId: null,
    line: null, // an older line of the thread that is looked at; null for the present one
    thread: null, // what "thread" returned: {thread_id, status, pending, queued, ...}
    bars: new Map(), // by id, as "timeline" returns them
    texts: new Map(), // what agents are saying: by address, the text so far
    selected: null, // the id of a bar
    isConnected: true,
    error: null, // {message} of what was refused last
  };
  const panels = [];
  let leave = () => {};

  function set(changes) {
    Object.assign(state, changes);
    const changed = new Set(Object.keys(changes));
    for (const panel of panels) panel.update(state, changed);
  }

  function hear(kind, data) {
    if (kind === "lost" || kind === "found") return set({isConnected: kind === "found"});
    if (kind === "thread") return set({thread: data});
    if (kind === "text") {
      state.texts.set(data.address, (state.texts.get(data.address) ?? "") + data.text);
      return set({texts: state.texts});
    }
    for (const bar of data.bars) state.bars.set(bar.id, bar);
    set({bars: state.bars});
  }

  return {
    state,
    set,
    add: (panel) => panels.push(panel),
    /** Look at a thread, or at one of its older lines. */
    open(threadId, line = null) {
      leave();
      set({threadId, line, thread: null, bars: new Map(), texts: new Map(), selected: null});
      leave = threadId ? backend.follow(threadId, null, hear) : () => {};
    },
    select: (id) => set({selected: id}),
    /** Make a call that a person wants; show why it was refused. Returns the answer, or undefined. */
    async want(name, args) {
      try {
        const answer = await backend.call(name, args);
        set({error: null});
        return answer;
      } catch (error) {
        set({error});
        return undefined;
      }
    },
  };
}
