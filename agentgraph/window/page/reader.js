// Reads the conversation of the open thread while a view shows it: its last turn, then new events.

import {joinedTalk} from "./turns.js";

/** @import {Backend, Changed, State, Store} from "./page.d.ts" */

const PAUSE = 4; // pause between reads, as a multiple of the duration of a read
const STEPS = 100; // minimum number of steps in an earlier part

/** @typedef {{before?: string, steps?: number | null, since?: string}} Part */

/** Make the reader: {update, earlier}; its result is the `talk` of the state.
 *
 * @param {Store} store
 * @param {Backend} backend
 */
export function makeReader(store, backend) {
  const {state} = store;
  let reads = Promise.resolve(); // one at a time
  let next = 0; // time of the next read of new events
  let timer = 0;

  function place() {
    const {threadId, line, thread} = state;
    if (!threadId || !thread || thread.status === "new" || thread.changed !== null) return null;
    return {thread_id: threadId, ...(line ? {line} : {})};
  }

  /** @param {() => Part | null} partOf returns null if nothing is to be read any more */
  async function read(partOf) {
    const wanted = place();
    const part = partOf();
    if (!wanted || !part) return;
    const began = performance.now();
    const key = JSON.stringify(wanted);
    const isStill = () => JSON.stringify(place()) === key;
    try {
      const answer = await backend.call("conversation", {...wanted, ...part});
      const isEarlier = part.before !== undefined;
      if (isStill()) store.set({talk: joinedTalk(state.talk, answer, {isEarlier})});
    } catch (error) {
      if (isStill()) store.set({error});
    }
    const ended = performance.now();
    next = ended + (ended - began) * PAUSE;
  }

  /** @param {() => Part | null} partOf */
  function readNext(partOf) {
    reads = reads.then(() => read(partOf));
    return reads;
  }

  function readNew() {
    timer = 0;
    readNext(() => (state.talk ? {since: state.talk.upto} : {}));
  }

  return {
    /** Read the part before the known one; `isAll` reads all before it. */
    earlier: (isAll = false) => readNext(
      () => state.talk && {before: state.talk.begin, steps: isAll ? null : STEPS},
    ),
    /**
     * @param {State} _
     * @param {Changed} changed
     */
    update(_, changed) {
      if (!["threadId", "line", "bars", "thread", "view"].some((key) => changed.has(key))) return;
      const isRead = state.view === "work" || (state.line !== null && state.talk !== null);
      if (isRead || !place()) return;
      timer ||= setTimeout(readNew, state.talk ? Math.max(0, next - performance.now()) : 0);
    },
  };
}
