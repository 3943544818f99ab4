import assert from "node:assert/strict";
import {test} from "node:test";

import {cellBackend} from "../../agentgraph/window/page/cell.js";

/** The model of a widget, as anywidget passes it: what it sends is kept, what it hears is given. */
function modelOf() {
  const listeners = new Map();
  const sent = [];
  return {
    sent,
    get: () => null,
    on: (name, listener) => listeners.set(name, listener),
    off: (name) => listeners.delete(name),
    send: (message) => sent.push(message),
    hear: (name, message) => listeners.get(name)?.(message),
    listeners,
  };
}

function opened(context) {
  const model = modelOf();
  const {backend, close} = cellBackend(model);
  context.after(close);
  return {model, backend, close, hear: (message) => model.hear("msg:custom", message)};
}

test("a call is answered by its number, and refused with the kernel's words", async (context) => {
  const {backend, model, hear} = opened(context);
  const [first, second] = [backend.call("about"), backend.call("thread", {thread_id: "t"})];
  const [{view}, {call, name, arguments: args}] = model.sent;
  assert.deepEqual([name, args], ["thread", {thread_id: "t"}]);
  hear({view: "another", call, answer: 0});
  hear({view, call, error: "UnknownThreadError", detail: "there is no thread 't'"});
  hear({view, call: call - 1, answer: {title: "desk"}});
  assert.deepEqual(await first, {title: "desk"});
  await assert.rejects(second, {message: "there is no thread 't'", kind: "UnknownThreadError"});
});

test("a follower hears all kinds of news, also that a thread cannot be read", (context) => {
  const {backend, model, hear} = opened(context);
  const heard = [];
  const leave = backend.follow("t", null, (kind, data) => heard.push([kind, data]));
  const [{view, follow}] = model.sent;
  const told = {thread: {status: "done"}, timeline: {upto: "7"}, text: {text: "Hum"}, quiet: {},
    failed: {error: "SaverError", detail: "it is damaged"}, lost: {text: "gone", isForGood: false}};
  for (const [kind, data] of Object.entries(told)) hear({view, follow, kind, data});
  const {quiet: _, ...news} = told;
  assert.deepEqual(heard, [["found", undefined], ...Object.entries(news)]);
  leave();
  assert.deepEqual(model.sent.at(-1), {view, unfollow: follow});
});

test("a follower that is asked for again goes on after the last news", (context) => {
  const {backend, model, hear} = opened(context);
  backend.follow("t", "3", () => {});
  const {view, follow} = model.sent[0];
  hear({view, follow, kind: "timeline", data: {upto: "7"}});
  model.hear("comm:close");
  hear({view, follow, kind: "quiet", data: {}});
  assert.deepEqual(model.sent.at(-1), {view, follow, thread: "t", since: "7"});
});

test("a kernel that ended refuses what waits, and all that is asked then", async (context) => {
  const {backend, model} = opened(context);
  const heard = [];
  backend.follow("t", null, (kind) => heard.push(kind));
  const waiting = backend.call("about");
  model.hear("comm:close");
  await assert.rejects(waiting, {kind: "lost"});
  await assert.rejects(backend.call("about"), {kind: "lost"});
  assert.deepEqual(heard, ["lost"]);
});

test("a view that is closed follows and hears nothing", (context) => {
  const {backend, model, close} = opened(context);
  backend.follow("t", null, () => {});
  const {view, follow} = model.sent[0];
  close();
  assert.deepEqual(model.sent.at(-1), {view, unfollow: follow});
  assert.equal(model.listeners.size, 0);
});
