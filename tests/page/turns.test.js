// The conversation as data: its parts joined, its items, and the filter of events.

import assert from "node:assert/strict";
import {test} from "node:test";

import {
  filteredEvents, gistOf, joinedTalk, plainEvent, talkItems,
} from "../../agentgraph/window/page/turns.js";

const message = (type, data) => ({output: {message: {type, data}, custom: null, partial: false}});

/** An event of turn 0, numbered. */
function event(number, more = {}) {
  return {
    id: `e${number}`, kind: "message", agent_name: "desk", address: "desk", turn: 0, step: `s${number}:desk`,
    cursor: String(number), output: null, action: null, error: null, run_path: -1, ...more,
  };
}

const said = (number, text, more = {}) => event(number, {...message("ai", {content: text}), ...more});

function part(events, more = {}) {
  return {
    sent: [], events, paths: [], asked: [], discarded: [], begin: "b2", after: "", upto: "b3", is_whole: true,
    continues: false, ...more,
  };
}

const sent = (at, turn, text, more = {}) => ({
  at, turn, after: "0", time: 1, is_input: true, messages: [{role: "user", id: `u${turn}`, text}], values: {},
  ...more,
});
const ids = (talk) => talk.events.map((each) => each.id);
const gists = (talk) => talkItems(talk).map((item) => (
  item.kind === "turn" ? `turn ${item.turn}` : item.kind === "sent" ? item.message.text
    : item.kind === "set" ? item.values : gistOf(item.event)
));

test("a later part replaces the events after its start, and those that it discards", () => {
  const events = [said(1, "a"), said(2, "b"), said(4, "c")];
  const first = joinedTalk(null, part(events, {sent: [sent("b2", 0, "Go.")]}));
  const more = {begin: "b3", after: "2", upto: "b5", discarded: ["e1"], continues: true};
  const later = part([said(3, "d")], more);
  const talk = joinedTalk(first, later);
  assert.deepEqual(ids(talk), ["e2", "e3"]);
  assert.deepEqual(talk.sent.map((each) => each.at), ["b2"]);
  assert.equal(talk.upto, "b5");
  assert.deepEqual(ids(joinedTalk(talk, part([said(9, "x")]))), ["e9"]);
});

test("a question that is asked again under its id stays", () => {
  const later = (number, more) => (
    part([event(number)], {after: String(number - 1), continues: true, ...more})
  );
  const asked = (number) => event(number, {id: "q", kind: "interrupted"});
  const first = joinedTalk(joinedTalk(null, part([asked(1)])), later(2, {discarded: ["q"]}));
  assert.deepEqual(ids(first), ["e2"]);
  const again = joinedTalk(first, part([asked(3)], {after: "2", continues: true}));
  assert.deepEqual(ids(joinedTalk(again, later(4))), ["e2", "q", "e4"]);
});

test("run paths share their beginnings, and a plain event has its own in full", () => {
  const paths = [[-1, "refine", null], [0, "writer", 0], [1, "critic", 0], [0, "legal", null]];
  const events = [2, 3, -1].map((row, number) => said(number, "a", {run_path: row}));
  const talk = joinedTalk(null, part(events, {paths}));
  assert.equal(talk.events[0].run_path.before.before, talk.events[1].run_path.before);
  assert.deepEqual(talk.events.map((each) => plainEvent(each).run_path), [
    [["refine", null], ["writer", 0], ["critic", 0]], [["refine", null], ["legal", null]], [],
  ]);
});

test("an earlier part comes before the known ones, without what these discarded", () => {
  const known = joinedTalk(null, part([said(5, "e"), said(6, "again")], {
    discarded: ["s2:desk"], is_whole: false, sent: [sent("b5", 1, "More.")],
  }));
  const events = [said(1, "a"), said(2, "b"), said(6, "old")];
  const before = part(events, {begin: "b0", sent: [sent("b0", 0, "Go.")]});
  const talk = joinedTalk(known, before, {isEarlier: true});
  assert.deepEqual(ids(talk), ["e1", "e5", "e6"]);
  assert.deepEqual(talk.sent.map((each) => each.turn), [0, 1]);
  assert.deepEqual([talk.begin, talk.upto, talk.isWhole], ["b0", "b3", true]);
});

test("the items are turns with messages, and results belong to their calls", () => {
  const call = {id: "c", name: "look", args: {where: "hive"}};
  const result = (number) => event(number, message("tool", {content: "nothing", tool_call_id: "c"}));
  const talk = joinedTalk(null, part([
    event(1, message("ai", {content: "", tool_calls: [call]})),
    result(2),
    said(3, "They hum."),
    event(4, {...message("ai", {content: "", tool_calls: [call]}), turn: 1}),
    {...result(5), turn: 1, address: "other"},
  ], {sent: [sent("b2", 0, "Go."), sent("b3", 1, "More.", {after: "3"})]}));
  assert.deepEqual(gists(talk), [
    "turn 0", "Go.", 'calls look({"where":"hive"})', "They hum.",
    "turn 1", "More.", 'calls look({"where":"hive"})', "nothing",
  ]);
  const events = talkItems(talk).filter((each) => each.kind === "event");
  assert.deepEqual(events.map((each) => each.calls.map(({result: one}) => one?.id ?? null)), [
    ["e2"], [], [null], [],
  ]);
  assert.deepEqual(events.map((each) => [each.isFirst, each.isLast]), [
    [true, false], [false, true], [true, true], [true, true],
  ]);
});

test("messages that a rewind replaced or added, and values that a run set, have their places", () => {
  const edited = sent("b4", 0, "Go on.", {is_input: false, after: "1"});
  const added = {...sent("b5", 0, "Also this."), is_input: false, after: "1"};
  added.messages = [{role: "user", id: "other", text: "Also this."}];
  added.values = {style: "haiku"};
  const all = [sent("b2", 0, "Go.", {values: {topic: "bees"}}), edited, added];
  const talk = joinedTalk(null, part([said(1, "a"), said(2, "b")], {sent: all}));
  assert.deepEqual(gists(talk), [
    "turn 0", "Go on.", {topic: "bees"}, "a", "Also this.", {style: "haiku"}, "b",
  ]);
  assert.equal(talkItems(talk)[0].time, 1);
  const first = {...edited, after: "0", time: 9}; // the turn ran again from its start
  assert.equal(talkItems({...talk, sent: [all[0], first]})[0].time, 9);
});

test("events are filtered by agent, kind and text, and copied as they were streamed", () => {
  const chosen = {interrupted: null, transfer_to: null, chosen: "mail", values: null, custom: null};
  const events = [
    said(1, "Bees HUM."), said(2, "No.", {agent_name: "boss"}), event(3, {kind: "chosen", action: chosen}),
    event(4, {kind: "error", error: "ValueError('hum')"}),
  ];
  const found = (wanted) => filteredEvents(events, wanted).map((each) => each.id);
  assert.deepEqual(found({}), ["e1", "e2", "e3", "e4"]);
  assert.deepEqual(found({word: "hum"}), ["e1", "e4"]);
  assert.deepEqual(found({word: "hum", kind: "error"}), ["e4"]);
  assert.deepEqual(found({agent: "boss"}), ["e2"]);
  assert.deepEqual(events.map(gistOf), ["Bees HUM.", "No.", "mail", "ValueError('hum')"]);
  assert.equal("kind" in plainEvent(events[0]), false);
});
