import assert from "node:assert/strict";
import {test} from "node:test";

import {
  firstAt, isMostlyWaits, layOut, makeAxis, shownTime, unitsOf,
} from "../../agentgraph/window/page/rows.js";
import {makeView, RULER, ROW} from "../../agentgraph/window/page/view.js";
import {bar} from "./trees.js";

const rowsOf = (bars) => layOut(bars).rows.map((row) => row.map((item) => item.bar.id));

test("a bar is below the one that it is inside of", () => {
  const bars = [bar("s/a", 0, 1, {inside: "s"}), bar("s", 0, 2), bar("s/b", 1, 2, {inside: "s"})];
  assert.deepEqual(rowsOf(bars), [["s"], ["s/a", "s/b"]]);
});

test("what runs at the same time is in rows of its own, with all that is inside", () => {
  const bars = [
    bar("p", 0, 9), bar("p/a", 0, 5, {inside: "p"}), bar("p/a/x", 1, 4, {inside: "p/a"}),
    bar("p/b", 1, 9, {inside: "p"}),
  ];
  assert.deepEqual(rowsOf(bars), [["p"], ["p/a"], ["p/a/x"], ["p/b"]]);
});

test("bars that overlap by a fifth, as by clocks of two processes, share a row", () => {
  assert.deepEqual(rowsOf([bar("a", 0, 10), bar("b", 9, 19)]), [["a", "b"]]);
  assert.deepEqual(rowsOf([bar("a", 0, 10), bar("b", 7, 17)]), [["a"], ["b"]]);
});

test("what still runs has no end, and the axis grows with it", () => {
  const layout = layOut([bar("a", 10, 12), bar("b", 12, null)]);
  assert.deepEqual([layout.begin, layout.end, layout.isOpen, layout.isWaiting], [10, 12, true, false]);
  assert.equal(layout.items[1].ended, Infinity);
  assert.equal(makeAxis(layout, false, 15).lengthAt(20), 10);
  assert.deepEqual(layOut([]), {items: [], rows: [], begin: 0, end: 1, isOpen: false, isWaiting: false});
});

test("the axis without long waits is short, and turns times into units and back", () => {
  const layout = layOut([bar("a", 0, 10), bar("b", 110, 120)]);
  const axis = makeAxis(layout, true, 120);
  assert.deepEqual(axis.waits.map(({isOpen}) => isOpen), [false]);
  assert.ok(axis.lengthAt(120) < 25);
  for (const time of [0, 5, 10, 60, 110, 115, 120]) {
    assert.ok(Math.abs(axis.toTime(axis.toUnits(time)) - time) < 1e-6);
  }
  assert.equal(makeAxis(layout, false, 120).lengthAt(120), 120);
  const [ruled, after] = [unitsOf(15, axis.waits), axis.toUnits(115)]; // the ruler counts no waits
  assert.ok(Math.abs(ruled - after) < 1e-6);
  assert.equal(unitsOf(5, axis.waits), 5);
  assert.ok(Math.abs(shownTime(after, axis.waits) - 15) < 1e-6);
});

test("waits are most of the time when less than half of it was worked", () => {
  assert.equal(isMostlyWaits(layOut([bar("a", 0, 10), bar("b", 110, 120)]), 120), true);
  assert.equal(isMostlyWaits(layOut([bar("a", 0, 10), bar("b", 15, 25)]), 25), false);
});

test("a question is no work: the time of a person is a wait", () => {
  const asked = bar("q", 10, 110, {kind: "question", inside: "a"});
  assert.equal(isMostlyWaits(layOut([bar("a", 0, 110), bar("x", 0, 10, {inside: "a"}), asked]), 110), true);
});

test("a question that is open waits without an end", () => {
  const asked = bar("q", 30, null, {kind: "question", state: "asks", inside: "b"});
  const layout = layOut([bar("a", 0, 10), bar("b", 20, null, {state: "asks"}), asked]);
  assert.deepEqual(makeAxis(layout, true, 99).waits.map(({from, isOpen}) => [from, isOpen]), [[10, true]]);
});

test("the first item at a time is the one before, or the first", () => {
  const [row] = layOut([bar("a", 0, 1), bar("b", 2, 3), bar("c", 4, 5)]).rows;
  assert.deepEqual([-1, 0.5, 2.5, 9].map((time) => firstAt(row, time)), [0, 0, 0, 1]);
  assert.equal(firstAt([], 1), 0);
});

test("a view finds the bar below a pointer, the nearest one, or none", () => {
  const view = makeView(() => 240); // 12 and 28 are margins: 100 seconds are 200 pixels
  view.setBars([bar("a", 0, 50), bar("b", 50, 100)]);
  view.settle();
  const y = RULER + ROW / 2;
  const found = (x) => view.itemAt(x, y, 0)?.bar.id;
  assert.equal(Math.round(view.toX(50)), 112);
  assert.deepEqual([found(60), found(150), found(214), found(230)], ["a", "b", "b", undefined]);
  assert.equal(view.itemAt(60, RULER - 1, 0), null);
  assert.equal(view.itemAt(60, RULER + 2 * ROW, 0), null);
});

test("a view that zooms keeps what is at a place there, and no longer fits all", () => {
  const view = makeView(() => 240);
  view.setBars([bar("a", 0, 100)]);
  view.settle();
  const time = view.toTime(100);
  view.zoom(4, 100);
  assert.ok(Math.abs(view.toTime(100) - time) < 1e-9);
  assert.equal(view.mode, "free");
  view.show(view.layout.items[0]);
  assert.ok(view.toX(0) >= 0);
});

test("items are in the order in which they began, what encloses others first", () => {
  const bars = [bar("b", 2, 3), bar("s/a", 0, 1, {inside: "s"}), bar("s", 0, 3)];
  assert.deepEqual(layOut(bars).items.map((item) => item.bar.id), ["s", "s/a", "b"]);
});

test("a view that is moved, or leaves out waits, keeps to what it shows", () => {
  const view = makeView(() => 240);
  view.setBars([bar("a", 0, 10), bar("b", 110, 120)]);
  view.settle();
  view.pan(20);
  assert.equal(view.mode, "free");
  assert.equal(Math.round(view.toX(0)), 12 - 20);
  const middle = view.toTime(120);
  view.setShort(true);
  assert.equal(view.waits.length, 1);
  assert.ok(Math.abs(view.toTime(120) - middle) < 1e-6);
});
