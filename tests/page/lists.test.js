// The list of threads, page by page.

import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {firstThread, makeStore} from "../../agentgraph/window/page/store.js";

const ids = (count) => Array.from({length: count}, (_, number) => ({thread_id: `t${number}`}));

before(() => {
  globalThis.document = {
    visibilityState: "visible", addEventListener: () => {}, removeEventListener: () => {},
  };
});

after(() => delete globalThis.document);

/** A backend with a number of threads, as the window answers: 500 a page. */
function backendOf(count, asked) {
  const every = ids(count);
  return {
    call: (name, {limit, before: last, ...rest}) => {
      asked.push({limit, last, ...rest});
      const begin = last ? every.findIndex((each) => each.thread_id === last) + 1 : 0;
      const threads = every.slice(begin, begin + Math.min(limit, 500));
      const more = rest.status && begin + threads.length < count ? {more: true} : {};
      return Promise.resolve({threads, total: every.length - begin, ...more});
    },
    follow: () => () => {},
  };
}

test("more threads than a page of the server has are asked for page by page", async () => {
  const asked = [];
  const store = makeStore(backendOf(620, asked));
  await store.refreshThreads();
  assert.deepEqual(asked, [{limit: 50, last: undefined, search: ""}]);
  for (let more = 0; more < 6; more++) await store.listMore();
  const {threads, total} = store.state.threads;
  assert.deepEqual(asked.slice(-2).map(({limit, last}) => [limit, last]), [[500, undefined], [150, "t499"]]);
  assert.deepEqual([threads, total], [ids(620), 620]);
  store.close();
});

test("a list says that there are more if its last page does", async () => {
  const asked = [];
  const store = makeStore(backendOf(700, asked));
  await store.find("", "done");
  assert.equal(store.state.threads.more, true);
  for (let more = 0; more < 6; more++) await store.listMore();
  assert.deepEqual([store.state.threads.threads.length, store.state.threads.more], [650, true]);
  await store.listMore();
  assert.deepEqual([store.state.threads.threads.length, store.state.threads.more], [700, undefined]);
  store.close();
});

test("the page opens on the thread that runs or waits, else on the one that ran last", () => {
  const row = (thread_id, status, updated) => ({thread_id, status, updated});
  const done = [row("new", "done", 3), row("last", "failed", 9), row("old", "stopped", 1)];
  assert.equal(firstThread(done), "last");
  assert.equal(firstThread([...done, row("waits", "paused", 4), row("waited", "paused", 2)]), "waits");
  assert.equal(firstThread([row("runs", "running", 5), row("waits", "paused", 4)]), "runs");
  assert.equal(firstThread([]), null);
});

test("a thread that was opened before the list arrived stays open", async () => {
  const store = makeStore(backendOf(2, []));
  store.open("mine");
  await store.refreshThreads();
  store.openFirst();
  assert.equal(store.state.threadId, "mine");
  store.close();
});
