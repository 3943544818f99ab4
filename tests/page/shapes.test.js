// The types of what the server sends, held against what it sends.

import assert from "node:assert/strict";
import {execFileSync, spawnSync} from "node:child_process";
import {mkdtempSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {test} from "node:test";

const ROOT = new URL("../..", import.meta.url).pathname;
const SHAPES = join(ROOT, "agentgraph/window/page/shapes.d.ts");
const TSC = join(ROOT, "node_modules/typescript/bin/tsc");
const NEEDED = `
type Needed<T> = {[K in keyof T as {} extends Pick<T, K> ? never : K]: true};
type Names<T> = {[K in keyof T]-?: true};
`;

function recorded() {
  const env = {...process.env, PYTHONPATH: ROOT};
  const options = {cwd: ROOT, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"]};
  return JSON.parse(execFileSync(".venv/bin/python", ["-W", "ignore", "tests/page/recorded.py"], options));
}

/** Return what the compiler says of some lines. */
function faultsOf(lines) {
  const folder = mkdtempSync(join(tmpdir(), "shapes-"));
  try {
    const head = `import type {Calls, News} from ${JSON.stringify(SHAPES)};\n${NEEDED}`;
    writeFileSync(join(folder, "recorded.ts"), head + lines.join("\n"));
    const options = ["--ignoreConfig", "--noEmit", "--strict", "--allowImportingTsExtensions", "recorded.ts"];
    return spawnSync(process.execPath, [TSC, ...options], {cwd: folder, encoding: "utf8"}).stdout;
  } finally {
    rmSync(folder, {recursive: true});
  }
}

const {answers, news, arguments: needed} = recorded();
const json = JSON.stringify;

test("what each call returned has its type, with all fields and no others", () => {
  assert.deepEqual(Object.keys(answers).sort(), Object.keys(needed).sort());
  const lines = Object.entries(answers).map(([name, each], i) => (
    `export const a${i}: Calls["${name}"][1][] = ${json(each)};`
  ));
  assert.equal(faultsOf(lines), "");
});

test("what a thread told has its type", () => {
  const lines = Object.entries(news).map(([kind, each], i) => (
    `export const a${i}: News["${kind}"][] = ${json(each)};`
  ));
  assert.ok(lines.length > 1);
  assert.equal(faultsOf(lines), "");
});

test("each call takes what its type says, and needs what its type needs", () => {
  const all = (names) => json(Object.fromEntries(names.map((name) => [name, true])));
  const lines = Object.entries(needed).flatMap(([name, each], i) => [
    `export const a${i}: Names<Calls["${name}"][0]> = ${all(Object.keys(each))};`,
    `export const b${i}: Needed<Calls["${name}"][0]> = ${all(Object.keys(each).filter((key) => each[key]))};`,
  ]);
  assert.equal(faultsOf(lines), "");
});

test("a field too many or too few is a fault", () => {
  const [thread] = answers.thread;
  assert.match(faultsOf([`export const a: Calls["thread"][1] = ${json({...thread, more: 1})};`]), /more/);
  const {status: _, ...rest} = thread;
  assert.match(faultsOf([`export const a: Calls["thread"][1] = ${json(rest)};`]), /status/);
});
