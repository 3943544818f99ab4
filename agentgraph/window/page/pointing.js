// The pointer in the timeline: selects, drags, zooms by the wheel, and shows tips.

import {el} from "./elements.js";
import {tipNodes} from "./labels.js";

/** @import {Item} from "./page.d.ts" */

const CLICK = 4; // maximum movement of a click, in pixels
const WHEEL = 0.002; // change of the scale's logarithm for each pixel of the wheel

/**
 * The actions of the pointer.
 *
 * @typedef {{
 *   itemAt: (x: number, y: number) => Item | null, select: (item: Item) => void,
 *   pan: (pixels: number) => void, zoom: (factor: number, x?: number) => void, draw: () => void,
 * }} PointerActs
 */

/** Handle the pointer: {tip, hovered}.
 *
 * @param {HTMLElement} scroller
 * @param {HTMLElement} canvas
 * @param {PointerActs} acts
 */
export function makePointing(scroller, canvas, acts) {
  const tip = el("div", {class: "tip", role: "tooltip", hidden: true});
  /** @type {{x: number, startX: number, startY: number, top: number, isMoved: boolean} | null} */
  let drag = null;
  /** @type {Item | null} */
  let hovered = null;

  /** @type {(event: MouseEvent) => [x: number, y: number]} */
  const placeIn = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  /**
   * @param {Item | null} item
   * @param {number} x
   * @param {number} y
   */
  function showTip(item, x, y) {
    tip.hidden = !item;
    if (!item) return;
    tip.replaceChildren(...tipNodes(item.bar, Date.now() / 1000));
    const isBelow = y + 18 + tip.offsetHeight < canvas.clientHeight;
    const left = Math.min(x + 12, canvas.clientWidth - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${isBelow ? y + 18 : Math.max(0, y - tip.offsetHeight - 8)}px`;
  }

  /**
   * @param {Item | null} item
   * @param {number} [x]
   * @param {number} [y]
   */
  function look(item, x = 0, y = 0) {
    if (item !== hovered) {
      hovered = item;
      acts.draw();
    }
    scroller.classList.toggle("over", item !== null);
    showTip(item, x, y);
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  function dragTo(x, y) {
    if (!drag) return;
    drag.isMoved ||= Math.abs(x - drag.startX) + Math.abs(y - drag.startY) > CLICK;
    if (!drag.isMoved) return;
    acts.pan(drag.x - x);
    scroller.scrollTop = drag.top + drag.startY - y;
    drag.x = x;
    tip.hidden = true;
    scroller.classList.add("dragged");
  }

  /** @param {PointerEvent} event */
  function drop(event) {
    const isClick = drag && !drag.isMoved && event.type === "pointerup";
    drag = null;
    scroller.classList.remove("dragged");
    const item = isClick ? acts.itemAt(...placeIn(event)) : null;
    if (item) acts.select(item);
  }

  scroller.addEventListener("pointerdown", (event) => {
    const [x, y] = placeIn(event);
    if (event.button !== 0 || x > scroller.clientWidth) return; // the scrollbar
    drag = {x, startX: x, startY: y, top: scroller.scrollTop, isMoved: false};
    scroller.setPointerCapture(event.pointerId);
  });
  scroller.addEventListener("pointermove", (event) => {
    const [x, y] = placeIn(event);
    if (drag) dragTo(x, y);
    else look(acts.itemAt(x, y), x, y);
  });
  scroller.addEventListener("pointerup", drop);
  scroller.addEventListener("pointercancel", drop);
  scroller.addEventListener("pointerleave", () => look(null));
  scroller.addEventListener("wheel", (event) => {
    if (event.shiftKey) return; // Shift scrolls the rows
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) acts.pan(event.deltaX);
    else acts.zoom(Math.exp(-event.deltaY * WHEEL), placeIn(event)[0]);
  }, {passive: false});

  return {
    tip,
    get hovered() {
      return hovered;
    },
  };
}
