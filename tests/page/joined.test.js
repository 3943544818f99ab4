// The modules joined into one, as a browser and a cell of a notebook take it.

import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import {mkdtempSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {test} from "node:test";

const ROOT = new URL("../..", import.meta.url).pathname;

function joined() {
  const code = "from agentgraph.window.joined import cell_module; print(cell_module())";
  const env = {...process.env, PYTHONPATH: ROOT};
  return execFileSync(".venv/bin/python", ["-W", "ignore", "-c", code], {cwd: ROOT, env, encoding: "utf8"});
}

test("the module of a cell can be loaded, and is what anywidget takes", async (context) => {
  const folder = mkdtempSync(join(tmpdir(), "joined-"));
  context.after(() => rmSync(folder, {recursive: true}));
  const text = joined();
  writeFileSync(join(folder, "cell.mjs"), text);
  const module = await import(join(folder, "cell.mjs"));
  assert.deepEqual(Object.keys(module), ["default"]);
  assert.equal(typeof module.default.render, "function");
  assert.doesNotMatch(text, /^ *\/\*\*\n|@import|@typedef/m);
});
