import assert from "node:assert/strict";
import {test} from "node:test";

import {pathsOf} from "../../agentgraph/window/page/activations.js";
import {dropOldest, mergeBars, placeBars} from "../../agentgraph/window/page/bars.js";
import {bar, knownBars, node} from "./trees.js";

const ids = (known) => [...known.keys()];

test("what continues is added to what is known, and what is gone is taken away", () => {
  const known = knownBars([bar("a", 0, 1), bar("b", 1, 2)]);
  mergeBars(known, {bars: [bar("c", 2, 3)], continues: true, gone: ["a"]});
  assert.deepEqual(ids(known), ["b", "c"]);
});

test("what does not continue takes the place of all that is known", () => {
  const known = knownBars([bar("a", 0, 1)]);
  mergeBars(known, {bars: [bar("c", 2, 3)], continues: false});
  assert.deepEqual(ids(known), ["c"]);
});

test("an enclosing bar keeps when it began; one that is resumed begins again", () => {
  const inside = {inside: "grows"};
  const known = knownBars([bar("grows", 0, null), bar("first", 0, 1, inside), bar("resumed", 1, 2)]);
  const bars = [bar("grows", 5, 6), bar("next", 5, 6, inside), bar("resumed", 5, 6)];
  mergeBars(known, {bars, continues: true});
  assert.deepEqual([...known.values()].map(({id, began, ended}) => [id, began, ended]), [
    ["grows", 0, 6], ["first", 0, 1], ["resumed", 5, 6], ["next", 5, 6],
  ]);
});

test("a long text is cut", () => {
  const known = new Map();
  mergeBars(known, {bars: [bar("a", 0, 1, {text: "x".repeat(2001)})], continues: false});
  assert.equal(known.get("a").text, `${"x".repeat(2000)}…`);
});

test("the bar of a lap is at the place of its loop", () => {
  const paths = pathsOf(node("s", "sequential", [node("refine", "loop", [node("writer")])]));
  const places = ["s/refine[2]", "s/gone", "s"].map((address) => bar(address, 0, 1, {place: null}));
  placeBars(places, paths);
  assert.deepEqual(places.map(({place}) => place), ["refine", null, "s"]);
});

test("the oldest of too many bars are dropped", () => {
  const known = knownBars([bar("new", 9, 10), bar("old", 0, 1), bar("middle", 5, 6)]);
  assert.equal(dropOldest(known, 2), true);
  assert.deepEqual(ids(known), ["new", "middle"]);
  assert.equal(dropOldest(known, 2), false);
});
