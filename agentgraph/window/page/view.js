// Which part of the time the timeline shows, and how large: {begin, scale} in units of the axis.

import {firstAt, layOut, makeAxis} from "./rows.js";

/** @import {Axis, View} from "./page.d.ts" */

export const ROW = 22; // pixels of a row
export const RULER = 24; // pixels of what is above the rows

const MARGIN = 12; // pixels left of what ran
const END_MARGIN = 28; // pixels right of what ran: a short bar at the end is drawn whole
const FOLLOWED = 48; // pixels to the right of what runs now
const SHORTEST = 0.0005; // seconds as which the whole canvas may be shown
const NEAR = 3; // pixels by which a click may miss
const MARKED = new Set(["failed", "asks"]); // bars that are never too short for their mark
const MARK_ROOM = 14; // pixels of such a bar, at least

/** Make the view; `widthOf()` is the width of the canvas.
 *
 * @param {() => number} widthOf
 */
export function makeView(widthOf) {
  const now = () => Date.now() / 1000;
  const nothing = layOut([]);
  /** @type {Axis} */
  let axis = makeAxis(nothing, false, now());
  let length = 1; // of the axis, now
  /** @type {View} */
  const view = {
    layout: nothing,
    mode: "fit", // or "follow", or "free"
    isShort: false, // whether long waits are left out
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
    timeOf: (units) => axis.toTime(units),
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

  /** Let the view follow time, if it is to. */
  function settle() {
    length = axis.lengthAt(now());
    if (view.mode === "fit") {
      view.scale = fitting();
      view.left = -MARGIN / view.scale;
    } else if (view.mode === "follow") {
      view.left = length - (widthOf() - FOLLOWED) / view.scale;
    }
  }

  /** Show all larger by a factor; what is at a place of the canvas stays there.
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

  /** Return where a bar ends, in pixels: what runs ends now, what waits or was killed with the axis.
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

  /** Return the item at a place of the canvas, or the nearest one; null if there is none.
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

  /** Move so that the beginning of an item can be seen.
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
