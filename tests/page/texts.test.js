import assert from "node:assert/strict";
import {test} from "node:test";

import {lineName} from "../../agentgraph/window/page/comparison.js";
import {lineDiff, valueChanges} from "../../agentgraph/window/page/diff.js";
import {countText, durationText, shortText, timeText} from "../../agentgraph/window/page/elements.js";
import {asText, readObject, tokensText} from "../../agentgraph/window/page/entries.js";
import {isLap, labelOf, optionText} from "../../agentgraph/window/page/labels.js";
import {answerText, shortAnswer} from "../../agentgraph/window/page/parts.js";
import {bar} from "./trees.js";

test("durations are read as people say them", () => {
  const seconds = [0, 0.0994, 0.9994, 0.9996, 3.44, 59.96, 125, 3600, 172800, null, undefined, NaN, -1];
  assert.deepEqual(seconds.map(durationText), [
    "0 ms", "99 ms", "999 ms", "1.0 s", "3.4 s", "1:00 min", "2:05 min", "1.0 h", "2.0 d", "", "", "",
    "0 ms",
  ]);
});

test("counts are short", () => {
  assert.deepEqual([0, 950, 1000, 1234, 99960, 1e6, 3.4e6].map(countText),
    ["0", "950", "1k", "1.2k", "100k", "1M", "3.4M"]);
});

test("a time of today has no day", () => {
  const now = Date.now() / 1000;
  assert.equal(timeText(0), "");
  assert.ok(timeText(now).length < timeText(now - 40 * 86400).length);
});

test("a short text is one line without marks that turn its direction", () => {
  assert.equal(shortText("a\u2028b \n\t c\u202egnp"), "a b cgnp");
  assert.equal(shortText("abcdef", 3), "abc…");
  assert.equal(shortText(null), "");
});

test("data is text, or indented JSON", () => {
  assert.deepEqual([asText("a"), asText({a: 1}), asText(undefined)], ["a", '{\n  "a": 1\n}', ""]);
});

test("an answer to a question for approval is the decision on each call", () => {
  const asked = {action_requests: [{name: "pay", args: {usd: 1}}, {name: "pay", args: {usd: 2}}]};
  const decisions = [{type: "approve"}, {type: "reject", message: "Too dear."}];
  assert.equal(answerText(asked, {decisions}), "pay: approved, pay: rejected: Too dear.");
  assert.equal(answerText({type: "tool_approval", name: "mail"}, {type: "edit"}), "mail: edited");
  assert.equal(answerText("Print it?", "yes"), "yes");
  assert.equal(shortAnswer({decisions}), "approved, rejected: Too dear.");
  assert.equal(shortAnswer({decisions: "none"}), '{\n  "decisions": "none"\n}'); // of another form
});

test("tokens that were not reported are not told", () => {
  assert.equal(tokensText({input: 1200, output: 3}), "1.2k tokens in, 3 out");
  assert.equal(tokensText({input: 5, output: null}), "5 tokens in, 0 out");
  assert.deepEqual([tokensText(7), tokensText(0), tokensText(null)], ["7 tokens", "", ""]);
  assert.equal(tokensText({input: null, output: null}), "");
});

test("only a JSON object is values", () => {
  assert.deepEqual(readObject('{"a": [1]}'), {values: {a: [1]}});
  assert.match(readObject("[1]").error, /must be a JSON object/);
  assert.match(readObject("null").error, /must be a JSON object/);
  assert.match(readObject("{a").error, /not JSON/);
});

test("lines that differ are removed and added, in order", () => {
  assert.deepEqual(lineDiff("a\nb\nc\nd", "a\nx\nc\ny\nd"), [
    [" ", "a"], ["-", "b"], ["+", "x"], [" ", "c"], ["+", "y"], [" ", "d"],
  ]);
  assert.deepEqual(lineDiff("", "a"), [["+", "a"]]);
  assert.deepEqual(lineDiff("a", ""), [["-", "a"]]);
});

test("texts too large to be compared line by line differ as a block", () => {
  const [left, right] = ["a", "b"].map((word) => Array.from({length: 1100}, (_, i) => word + i));
  const lines = lineDiff([...left, "same"].join("\n"), [...right, "same"].join("\n"));
  assert.equal(lines.length, 2201);
  assert.deepEqual([lines[1099][0], lines[1100][0], lines[2200]], ["-", "+", [" ", "same"]]);
});

test("values that changed come before those that are the same", () => {
  assert.deepEqual(valueChanges({a: 1, b: [1], c: 3}, {a: 1, b: [2], d: 4}), [
    ["b", "changed", [1], [2]], ["c", "removed", 3, undefined], ["d", "added", undefined, 4],
    ["a", "same", 1, 1],
  ]);
  assert.deepEqual(valueChanges(undefined, {a: null}), [["a", "added", undefined, null]]);
});

test("a bar is called by its iteration, item, call or turn", () => {
  const inside = {inside: "s"};
  assert.equal(labelOf(bar("s", 0, 1)), "s");
  assert.equal(labelOf(bar("s", 0, 1, {turn: 1})), "s, turn 2");
  assert.equal(labelOf(bar("s/l[2]", 0, 1, {...inside, place_kind: "loop"})), "l, iteration 3");
  assert.equal(labelOf(bar("s/p(0:home)", 0, 1, inside)), "p home");
  assert.equal(labelOf(bar("s/p(1)", 0, 1, inside)), "p 2");
  assert.equal(labelOf(bar("s/p(look)", 0, 1, inside)), "p look");
  assert.equal(labelOf(bar("s/p", 0, 1, {...inside, kind: "tool", label: "mail"})), "mail");
  assert.equal(isLap(bar("s/l", 0, 1, {place_kind: "loop"})), false);
});

test("a screen reader hears what a bar is, where, how it stands and what it said", () => {
  assert.equal(optionText(bar("s/a", 1, 3, {inside: "s", text: "Hum."})), "a, s/a, Done, 2.0 s, Hum.");
  assert.equal(optionText(bar("s/a", 1, null, {inside: "s"})), "a, s/a, Running");
});

test("a line is called by where it parts", () => {
  assert.equal(lineName({is_present: true}, 0), "current version");
  const older = lineName({is_present: false, parts_at: "s/a", turn: 1}, 2);
  assert.equal(older, "older version 2, branches off in turn 2");
});
