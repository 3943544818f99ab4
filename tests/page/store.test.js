// What the page knows of the open thread, while other pages change it.

import assert from "node:assert/strict";
import {test} from "node:test";

import {paced} from "../../agentgraph/window/page/elements.js";
import {makeReader} from "../../agentgraph/window/page/reader.js";
import {makeStore} from "../../agentgraph/window/page/store.js";
import {bar} from "./trees.js";

const SEEN = {status: "running", changed: null, turns: []};
const PART = {
  sent: [], events: [], asked: [], discarded: [], begin: "b2", after: "", upto: "b3", is_whole: false,
  continues: false,
};

/** Open a thread of a store whose calls wait for `answer`; `send` sends an update of its server. */
function opened(threadId) {
  const calls = [];
  let send = () => {};
  const call = (name, args) => new Promise((answer) => calls.push({name, args, answer}));
  const follow = (_thread, _since, receive) => {
    send = receive;
    return () => {};
  };
  const store = makeStore({call, follow});
  store.open(threadId);
  return {store, calls, send: (kind, data) => send(kind, data)};
}

test("nothing of a thread stays that another page has deleted", () => {
  const {store, send} = opened("t");
  send("thread", SEEN);
  send("timeline", {bars: [bar("a", 0, null)], pauses: [[1, 2]], continues: false, is_whole: false});
  send("text", {address: "a", place: "a", id: "m", text: "Bees.", is_whole: true});
  store.set({talk: {events: []}});
  send("thread", {...SEEN, status: "new"});
  const {bars, pauses, texts, saying, talk, isWhole, thread} = store.state;
  assert.deepEqual([bars.size, pauses.size, texts.size, saying.size, talk, isWhole, thread.status], [
    0, 0, 0, 0, null, true, "new",
  ]);
});

test("earlier messages are read of the thread on which they were wanted", async () => {
  const {store, calls, send} = opened("t");
  store.state.view = "talk";
  const reader = makeReader(store, store.backend);
  send("thread", SEEN);
  reader.update(store.state, new Set(["thread"]));
  await new Promise((resolve) => setTimeout(resolve));
  const reads = () => calls.filter(({name}) => name === "conversation");
  const earlier = reader.earlier();
  store.open("other");
  send("thread", SEEN);
  reads()[0].answer(PART);
  await earlier;
  assert.deepEqual(reads().map(({args}) => args.thread_id), ["t"]);
  assert.equal(store.state.talk, null);
});

test("a slow call is made once more after all requests during it", async () => {
  const answers = [];
  const request = paced(() => new Promise((answer) => answers.push(answer)));
  const soon = () => new Promise((resolve) => setTimeout(resolve, 5));
  request();
  await soon();
  request();
  request();
  await soon();
  assert.equal(answers.length, 1);
  answers[0]();
  while (answers.length < 2) await soon();
  answers[1]();
  await soon();
  assert.equal(answers.length, 2);
});
