import assert from "node:assert/strict";
import {test} from "node:test";

import {messageEntries} from "../../agentgraph/window/page/messages.js";
import {faultsIn, questionRest, questionText} from "../../agentgraph/window/page/forms.js";
import {limitHit, missingValue} from "../../agentgraph/window/page/limits.js";
import {activationBar, lookAt, lookedAt, selectTarget} from "../../agentgraph/window/page/looking.js";
import {valueOf} from "../../agentgraph/window/page/maps.js";
import {stagesOf} from "../../agentgraph/window/page/stages.js";
import {bar, knownBars, node, stateOf} from "./trees.js";

const AGENT = bar("s/a", 0, 1, {turn: 2});
const TOOL = bar("s/a", 0, 1, {id: "tool", kind: "tool", inside: AGENT.id});

/** A store as far as looking needs one. */
function storeOf(state) {
  const opened = [];
  const set = (changes) => Object.assign(state, changes);
  const open = (threadId, line) => {
    opened.push([threadId, line]);
    set({threadId, line, selected: null});
  };
  return {state, set, open, opened, select: (id) => set({selected: id})};
}

test("the bar of a call stands for the activation that made it", () => {
  const state = stateOf([AGENT, TOOL], {selected: "tool"});
  assert.equal(activationBar(state), AGENT);
  assert.deepEqual(lookedAt(state), {thread_id: "t", at: "s/a", turn: 2});
  assert.equal(lookedAt(stateOf([AGENT])), null);
});

test("what was discarded, or is on an older line, is looked at by its step", () => {
  const state = stateOf([{...AGENT, state: "void"}], {selected: AGENT.id});
  assert.deepEqual(lookedAt(state), {thread_id: "t", at: "step of s/a"});
  const old = stateOf([AGENT], {selected: AGENT.id, line: "head"});
  assert.deepEqual(lookedAt(old), {thread_id: "t", at: "step of s/a", line: "head"});
});

test("an activation is selected once its bar is there, the innermost of those that fit", () => {
  const store = storeOf(stateOf([]));
  lookAt(store, {threadId: "t", address: "s/a", turn: 2});
  assert.deepEqual(lookedAt(store.state), {thread_id: "t", at: "s/a", turn: 2});
  assert.equal(store.state.selected, null);
  store.state.bars = knownBars([AGENT, bar("s/a", 5, 6, {id: "other turn"})]);
  selectTarget(store);
  assert.deepEqual([store.state.selected, store.state.target, store.opened], [AGENT.id, null, []]);
});

test("an activation of another thread or line opens that one", () => {
  const store = storeOf(stateOf([]));
  lookAt(store, {threadId: "u", line: "head", step: "x"});
  assert.deepEqual(store.opened, [["u", "head"]]);
  assert.deepEqual(lookedAt(store.state), {thread_id: "u", at: "x", line: "head"});
  store.state.line = null;
  assert.equal(lookedAt(store.state), null);
});

test("a step of a workflow is in the column after all that it needs", () => {
  const steps = [
    node("print", "function", [], {needs: ["draw", "write"]}), node("write"), node("draw", "function", [],
      {needs: ["write"]}), node("burn", "function", [], {undoes: "draw"}),
  ];
  const names = stagesOf(steps).map((stage) => stage.map((each) => each.name));
  assert.deepEqual(names, [["write"], ["draw", "burn"], ["print"]]);
});

test("a value that a map lacks is an error that names the key", () => {
  assert.equal(valueOf(new Map([["a", 0]]), "a"), 0);
  assert.throws(() => valueOf(new Map(), "a"), /the key "a" is missing/);
});

test("the limit that was hit is read from the last bar that failed", () => {
  const failed = (id, text) => bar(id, 0, 1, {state: "failed", text});
  const text = "the limit Limits.steps of 'refine', which is 7 for a turn, was reached";
  assert.deepEqual(limitHit(stateOf([failed("a", text)])), {name: "steps", value: 7, of: "refine"});
  const other = failed("b", "Limits.seconds, which is 1.5 for a turn");
  assert.deepEqual(limitHit(stateOf([failed("a", text), other])),
    {name: "seconds", value: 1.5, of: undefined});
  assert.equal(limitHit(stateOf([failed("a", "The ink is empty.")])), null);
  assert.equal(limitHit(stateOf([failed("a", "Limits.wages, which is 1 for a turn")])), null);
});

test("a question is its text, and what else there is to it", () => {
  assert.equal(questionText("Print it?"), "Print it?");
  assert.equal(questionText({message: "Print it?", pages: 3}), "Print it?");
  assert.deepEqual(questionRest({message: "Print it?", pages: 3}), {pages: 3});
  assert.equal(questionRest({message: "Print it?"}), undefined);
  assert.equal(questionRest("Print it?"), undefined);
  assert.equal(questionText({pages: 3}), '{\n  "pages": 3\n}');
  const approval = {type: "tool_approval", name: "mail", args: {}};
  assert.equal(questionText(approval), "Approve mail?");
  assert.equal(questionRest(approval), undefined);
  const several = {action_requests: [{name: "pay"}, {name: "mail"}, {name: "pay"}]};
  assert.equal(questionText(several), "Approve pay ×2, mail?");
});

test("the faults of an answer are told by the paths of its fields", () => {
  const message = "the answer to s/boss does not fit: by.name: too short; not at all; the question is still"
    + " pending";
  assert.deepEqual(faultsIn(message, "s/boss"), [[["by", "name"], "too short"], [[], "not at all"]]);
  assert.deepEqual(faultsIn(message, "s/other"), []);
});

test("of many messages the last are shown, until all are asked for", () => {
  const messages = Array.from({length: 30}, (_, i) => ({role: "user", text: String(i)}));
  const keys = (isShown) => messageEntries(messages, "saw", isShown, () => {}).map(([key]) => key);
  assert.deepEqual(keys(false).slice(0, 2), ["saw-before", "saw-15"]);
  assert.equal(keys(false).length, 16);
  assert.equal(keys(true).length, 30);
  assert.equal(messageEntries(messages.slice(0, 15), "saw", false, () => {}).length, 15);
});

test("an error names the value that the run lacks", () => {
  const has = "(available: none)";
  const texts = [
    `writer: the template names {topic}, but the run has no value of that name ${has}; pass it`,
    `s/writer: ctx.values has no 'topic' ${has}; pass it with values=`,
    `s/each: over names the value 'topic', which is not in the run ${has}; pass it`,
  ];
  for (const text of texts) assert.equal(missingValue(text), "topic");
  assert.equal(missingValue("The ink is empty."), null);
});
