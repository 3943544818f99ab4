import assert from "node:assert/strict";
import {test} from "node:test";

import {
  addressParts, callOf, countAt, grownStatuses, isAround, itemName, lastPart, pathOf, pathsOf, placesOf,
  placeStatuses, worstState,
} from "../../agentgraph/window/page/activations.js";
import {bar, node} from "./trees.js";

const TREE = node("report", "sequential", [
  node("refine", "loop", [node("writer"), node("critic")]),
  node("pages", "each", [node("page", "chat", [], {is_called: true})]),
  node("writer", "chat", [node("helper", "function", [], {is_called: true})], {id: "writer2"}),
]);
const PLACES = placesOf(TREE);

test("an address has parts with calls, keys, attempts and counts", () => {
  assert.deepEqual(addressParts("report/refine[2]/page(3:a%20b){1}"), [
    {name: "report", call: null, key: null, attempt: null, count: null},
    {name: "refine", call: null, key: null, attempt: null, count: 2},
    {name: "page", call: "3", key: "a b", attempt: 1, count: null},
  ]);
  assert.equal(lastPart("a/b(%E0:%E0)").key, "%E0");
  assert.equal(lastPart("a/b(c").name, "b(c");
});

test("an address is around those with more parts or counters, not those with longer names", () => {
  const inner = ["a/b", "a[1]", "a(2)", "a{1}", "ab", "a"];
  assert.deepEqual(inner.filter((each) => isAround("a", each)), ["a/b", "a[1]", "a(2)", "a{1}"]);
});

test("a call is told apart by its number without the attempt, or its name", () => {
  assert.deepEqual(["p(3.1)", "p(3)", "p(look)", "p"].map((each) => callOf(lastPart(each))),
    ["3", "3", "look", null]);
});

test("places know what tells their activations apart, and how deep they are", () => {
  const found = [...PLACES.values()].map(({node: {id}, depth, counter}) => [id, depth, counter]);
  assert.deepEqual(found, [
    ["report", 0, null], ["refine", 1, "iteration"], ["writer", 2, null], ["critic", 2, null],
    ["pages", 1, null], ["page", 2, "item"], ["writer2", 1, null], ["helper", 2, "call"],
  ]);
  assert.equal(placesOf(null).size, 0);
});

test("a path is an address without counters; a second place of one name has a number", () => {
  assert.equal(pathOf("report/refine[2]/writer{1}"), "report/refine/writer");
  const twice = node("s", "sequential", [node("a"), node("a", "chat", [], {id: "a2"})]);
  assert.deepEqual([...pathsOf(twice)], [["s", "s"], ["s/a", "a"], ["s/a#2", "a2"]]);
  assert.equal(pathsOf(undefined).size, 0);
});

test("the count of a place in an address is its iteration, or its item", () => {
  const parts = addressParts("report/refine[2]/writer");
  assert.equal(countAt(PLACES.get("refine"), parts), "2");
  assert.equal(countAt(PLACES.get("page"), addressParts("report/pages/page(4:x)")), "4");
  assert.equal(countAt(PLACES.get("page"), addressParts("report")), null);
});

test("what runs stands out before what failed or is done", () => {
  assert.equal(worstState(["done", "failed", "running"]), "running");
  assert.equal(worstState(["void", "done"]), "done");
  assert.equal(worstState([]), "idle");
});

const LAPS = [
  bar("report/refine", 0, null),
  bar("report/refine[0]", 0, 3),
  bar("report/refine[0]/writer", 0, 1, {tokens_in: 5, tokens_out: 2}),
  bar("report/refine[0]/critic", 1, 3, {state: "failed"}),
  bar("report/refine[1]", 3, null),
  bar("report/refine[1]/writer", 3, null),
];

test("a place stands as its last activation, and counts what all of them took", () => {
  const found = placeStatuses(PLACES, LAPS);
  const {runs, seconds, tokens, state, last} = found.get("writer");
  assert.deepEqual([runs, tokens, state, last.id], [2, 7, "running", LAPS[5].id]);
  assert.equal(Math.round(seconds - (Date.now() / 1000 - LAPS[5].began)), 1); // the second one runs
  assert.equal(found.get("refine").tokens, 7);
  assert.equal(found.get("report").state, "running");
  assert.equal(found.get("pages").state, "idle");
});

test("a loop tells how each of its iterations stands", () => {
  const {counts} = placeStatuses(PLACES, LAPS).get("refine");
  assert.deepEqual([...counts].map(([count, {state, own}]) => [count, state, own.id]), [
    ["0", "done", "report/refine[0]"], ["1", "running", "report/refine[1]"],
  ]);
});

test("an iteration that is picked hides what ran in others", () => {
  const found = placeStatuses(PLACES, LAPS, {picks: new Map([["refine", "0"]])});
  assert.deepEqual([found.get("writer").runs, found.get("critic").state], [1, "failed"]);
  assert.equal(placeStatuses(PLACES, LAPS, {turn: 1}).get("writer").state, "idle");
});

test("items are told apart by their keys, and stand as what is inside them", () => {
  const items = [
    bar("report/pages/page(0:home)", 0, 1), bar("report/pages/page(1:news)", 0, null, {state: "asks"}),
  ];
  const {counts} = placeStatuses(PLACES, items).get("page");
  const told = [...counts].map(([count, {state, key}]) => [count, state, key]);
  assert.deepEqual(told, [["0", "done", "home"], ["1", "asks", "news"]]);
});

test("a discarded activation counts only while there is no other", () => {
  const gone = bar("report/refine[0]/writer", 0, 9, {id: "gone", state: "void"});
  assert.equal(placeStatuses(PLACES, [gone]).get("writer").state, "void");
  const found = placeStatuses(PLACES, [gone, bar("report/refine[0]/writer", 9, 10)]).get("writer");
  assert.deepEqual([found.runs, found.seconds, found.state], [1, 1, "done"]);
});

test("the time in which a question waited is known", () => {
  const own = bar("report/refine[0]/writer", 0, 9);
  const asked = bar(own.id, 2, 8, {id: "asked", kind: "question", inside: own.id});
  const found = placeStatuses(PLACES, [own, asked]).get("writer");
  assert.deepEqual([found.runs, found.seconds, found.waited], [1, 3, 6]);
});

test("a pause before a resume is no work, and an open question waits until now", () => {
  const began = Date.now() / 1000 - 100;
  const own = bar("report/refine[0]/writer", began, null, {state: "asks"});
  const asked = {id: "asked", kind: "question", state: "asks", inside: own.id};
  const bars = [own, bar(own.id, began + 30, null, asked)];
  const found = placeStatuses(PLACES, bars, {pauses: new Map([[began + 1, began + 21]])}).get("writer");
  assert.deepEqual([found.seconds, found.waited].map(Math.round), [10, 70]);
  const writer = bar("report/refine[1]/writer", began + 90, null, {state: "running"});
  const statuses = placeStatuses(PLACES, [own, bars[1], writer]);
  const {seconds, waited} = statuses.get("writer");
  const later = grownStatuses(statuses, 5);
  assert.deepEqual([later.get("writer").seconds, later.get("writer").waited], [seconds + 5, waited + 5]);
  assert.equal(later.get("refine"), statuses.get("refine"));
});

test("a chat agent counts the time of the agents that it transferred to", () => {
  const tree = node("desk", "chat", [node("help", "chat"), node("search", "chat", [], {is_called: true})]);
  const bars = [bar("desk", 0, 2), bar("desk/search(0)", 0, 1, {inside: "desk"}), bar("desk[1]/help", 2, 5)];
  assert.equal(placeStatuses(placesOf(tree), bars).get("desk").seconds, 5);
});

test("an agent in an each is known to run for an item", () => {
  const each = node("pages", "each", [node("page", "chat", [node("helper")])], {item: "address"});
  const places = placesOf(node("report", "sequential", [each, node("writer")]));
  assert.deepEqual(["helper", "page", "pages", "writer"].map((id) => itemName(places, id)), [
    "address", "address", null, null,
  ]);
});
