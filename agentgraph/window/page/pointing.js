// What a pointer does in the timeline: it selects, drags, zooms by its wheel, and shows what is below.

import {el} from "./elements.js";
import {tipNodes} from "./labels.js";

const CLICK = 4; // pixels that a click may move
const WHEEL = 0.002; // of the logarithm of the scale for a pixel of the wheel

/** Listen to the pointer: {tip, hovered}.
 *
 * @param acts {itemAt(x, y), select(item), pan(pixels), zoom(factor, x), draw()}
 */
export function makePointing(scroller, canvas, acts) {
  const tip = el("div", {class: "tip", role: "tooltip", hidden: true});
  let drag = null;
  let hovered = null;

  const placeIn = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  function showTip(item, x, y) {
    tip.hidden = !item;
    if (!item) return;
    tip.replaceChildren(...tipNodes(item.bar, Date.now() / 1000));
    const isBelow = y + 18 + tip.offsetHeight < canvas.clientHeight;
    const left = Math.min(x + 12, canvas.clientWidth - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${isBelow ? y + 18 : Math.max(0, y - tip.offsetHeight - 8)}px`;
  }

  function look(item, x, y) {
    if (item !== hovered) {
      hovered = item;
      acts.draw();
    }
    scroller.classList.toggle("over", item !== null);
    showTip(item, x, y);
  }

  function dragTo(x, y) {
    drag.isMoved ||= Math.abs(x - drag.startX) + Math.abs(y - drag.startY) > CLICK;
    if (!drag.isMoved) return;
    acts.pan(drag.x - x);
    scroller.scrollTop = drag.top + drag.startY - y;
    drag.x = x;
    showTip(null);
    scroller.classList.add("dragged");
  }

  function drop(event) {
    const isClick = drag && !drag.isMoved && event.type === "pointerup";
    drag = null;
    scroller.classList.remove("dragged");
    const item = isClick ? acts.itemAt(...placeIn(event)) : null;
    if (item) acts.select(item);
  }

  scroller.addEventListener("pointerdown", (event) => {
    const [x, y] = placeIn(event);
    if (event.button !== 0 || x > scroller.clientWidth) return; // the bar that scrolls
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
    if (event.shiftKey) return; // scrolls the rows
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
