import assert from "node:assert/strict";
import {test} from "node:test";

import {flameRows} from "../../agentgraph/window/page/flame.js";

const frame = (path, tokens, own = tokens, more = {}) => ({
  path, agent_name: path.split("/").at(-1), depth: path.split("/").length - 1, times: 1, seconds: 0,
  tokens, cost: null, waiting: 0, own_seconds: 0, own_tokens: own, own_cost: null, own_waiting: 0, ...more,
});

test("a frame is inside that of the agent around it, after its earlier siblings", () => {
  const frames = [frame("r", 80, 0), frame("r/a", 20), frame("r/b", 60, 20), frame("r/b/c", 40)];
  const rows = flameRows(frames, "tokens");
  assert.deepEqual(rows.map(({left, width, own}) => [left, width, own]), [
    [0, 1, 0], [0, 0.25, 0.25], [0.25, 0.75, 0.25], [0.25, 0.5, 0.5],
  ]);
});

test("amounts are texts, of the other thread too; an unknown cost has no width", () => {
  const frames = [frame("r", 1200, 0, {seconds: 75, cost: "0.05"}), frame("r/a", 1200)];
  const others = [frame("r", 90, 0)];
  assert.deepEqual(flameRows(frames, "tokens", others).map((row) => [row.total, row.other]), [
    ["1.2k", "90"], ["1.2k", ""],
  ]);
  assert.equal(flameRows(frames, "seconds")[0].total, "1:15 min");
  assert.equal(flameRows([frame("r", 0)], "tokens")[0].total, "not reported");
  assert.deepEqual(flameRows(frames, "cost").map((row) => [row.total, row.width]), [
    ["0.05", 1], ["unknown", 0],
  ]);
  assert.deepEqual(flameRows([], "waiting"), []);
});
