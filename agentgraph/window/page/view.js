// The visible part of the timeline: {begin, scale} in units of the axis.

import {firstAt, layOut, makeAxis} from "./rows.js";

/** @import {Axis, View} from "./page.d.ts" */

export const ROW = 22; // height of a row, in pixels
export const RULER = 24; // height of the ruler above the rows, in pixels

const MARGIN = 12; // pixels left of the first bar
const END_MARGIN = 28; // pixels right of the last bar, so that a short one is drawn completely
const FOLLOWED = 48; // pixels right of running bars
const SHORTEST = 0.0005; // minimum seconds that the canvas shows
const NEAR = 3; // maximum pixels between a click and its bar
const MARKED = new Set(["failed", "asks"]); // states whose bars have room for their mark
const MARK_ROOM = 14; // minimum width of such a bar, in pixels

/** Make the view; `widthOf()` is the width of the canvas.
 *
 * @param {() => number} widthOf
 */
export function makeView(widthOf) {
  const now = () => Date.now() / 1000;
  const nothing = layOut([]);
  /** @type {Axis} */
  let axis = makeAxis(nothing, false, now());
  let length = 1; // current length of the axis
  /** @type {View} */
  const view = {
    layout: nothing,
    mode: "fit", // or "follow", or "free"
    isShort: false, // whether long waits are hidden
    left: 0, // the unit at the left of the canvas
    scale: 1, // pixels for a unit
    get waits() {
      return axis.waits;
    },
    get length() {
      return length;
    },
    toX: (time) => (axis.toUnits(time) - view.left) * view.scale,
    toTime: (x) => axis.toTime(view.left + x / view.scale),
    endOf,
    setBars,
    setShort,
    settle,
    zoom,
    pan,
    itemAt,
    show,
  };

  const fitting = () => (widthOf() - MARGIN - END_MARGIN) / length;

  /** @type {View["setBars"]} */
  function setBars(bars) {
    view.layout = layOut(bars);
    axis = makeAxis(view.layout, view.isShort, now());
  }

  /** @type {View["setShort"]} */
  function setShort(isShort) {
    const middle = view.toTime(widthOf() / 2);
    view.isShort = isShort;
    axis = makeAxis(view.layout, isShort, now());
    length = axis.lengthAt(now());
    if (view.mode !== "fit") view.left = axis.toUnits(middle) - widthOf() / 2 / view.scale;
  }

  /** Move the view with time in the mode "follow". */
  function settle() {
    length = axis.lengthAt(now());
    if (view.mode === "fit") {
      view.scale = fitting();
      view.left = -MARGIN / view.scale;
    } else if (view.mode === "follow") {
      view.left = length - (widthOf() - FOLLOWED) / view.scale;
    }
  }

  /** Zoom by a factor around a fixed position of the canvas.
   *
   * @type {View["zoom"]}
   */
  function zoom(factor, x = widthOf() / 2) {
    const at = view.left + x / view.scale;
    const most = Math.max(widthOf() / Math.max(SHORTEST, length / 5e6), fitting());
    view.scale = Math.min(Math.max(view.scale * factor, fitting() / 2), most);
    view.left = at - x / view.scale;
    if (view.mode === "fit") view.mode = "free";
  }

  /** @type {View["pan"]} */
  function pan(pixels) {
    view.left += pixels / view.scale;
    view.mode = "free";
  }

  /** Return the end of a bar, in pixels: now for a running bar, the axis end for an open or killed one.
   *
   * @type {View["endOf"]}
   */
  function endOf(item) {
    const from = view.toX(item.began);
    const least = MARKED.has(item.state) ? from + MARK_ROOM : from;
    if (Number.isFinite(item.ended)) return Math.max(view.toX(item.ended), least);
    if (item.state === "running") return Math.max(view.toX(now()), least);
    return Math.max((length - view.left) * view.scale, least);
  }

  /** Return the item at or near a position of the canvas; null if there is none.
   *
   * @type {View["itemAt"]}
   */
  function itemAt(x, y, top) {
    const items = y < RULER ? undefined : view.layout.rows[Math.floor((y - RULER + top) / ROW)];
    if (!items) return null;
    let best = null;
    for (let number = firstAt(items, view.toTime(x - NEAR)); number < items.length; number++) {
      const item = items[number];
      const from = view.toX(item.began);
      if (from > x + NEAR) break;
      const to = endOf(item);
      if (from <= x && x <= to) return item;
      if (Math.max(to, from + 2) >= x - NEAR) best = item;
    }
    return best;
  }

  /** Move the view so that the start of an item is visible.
   *
   * @type {View["show"]}
   */
  function show(item) {
    if (view.mode === "fit") return;
    const x = view.toX(item.began);
    if (x >= 0 && x <= widthOf() - 40) return;
    view.mode = "free";
    view.left = axis.toUnits(item.began) - widthOf() / 3 / view.scale;
  }

  return view;
}
