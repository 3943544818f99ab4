// Draws the visible rows and times of the timeline on a canvas.

import {durationText, el, shortText} from "./elements.js";
import {colourOf} from "./items.js";
import {valueOf} from "./maps.js";
import {bandLength, firstAt, shownTime, unitsOf} from "./rows.js";
import {ROW, RULER} from "./view.js";

/** @import {Item, PaintLook, View, Wait} from "./page.d.ts" */

const NAMED = ["ink", "quiet", "line", "card", "accent", "bad", "void", "wait"];
const BAR_KINDS = [
  "chat", "function", "human", "graph", "node", "loop", "parallel", "workflow", "each", "switch",
  "swarm", "sequential", "model", "tool", "hook", "question",
];
/** @type {Record<string, string>} */
const MARKS = {failed: "✕", asks: "?", stopped: "■"};
/** @type {Record<string, string | undefined>} */
const OWN_COLOURS = {failed: "bad", asks: "wait", void: "void"};
const NARROW = 3; // pixels; adjacent bars narrower than this are drawn as one
const LEAST = 1.5; // minimum width of a bar, in pixels
const MOST_TICKS = 200;
const LEAST_BAND = 9; // minimum width of a band of a hidden wait with its length, in pixels
const WORD_HEIGHT = 13;
const TICK = 90; // minimum pixels between two labels of the ruler

/** Make the painter of a canvas: {paint(view, look), forget()}; `forget` drops the known colours.
 *
 * @param {HTMLCanvasElement} canvas
 */
export function makePainter(canvas) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  /** @type {Map<string, CanvasPattern | null>} */
  const hatches = new Map(); // by their colours
  /** @type {Map<string, string>} */
  const colours = new Map();

  /** Draw the visible part; return the number of bars. `look` is {width, top, selected, hovered}.
   *
   * @param {View} view
   * @param {PaintLook} look
   */
  function paint(view, look) {
    if (!colours.size) readColours();
    const tall = canvas.clientHeight;
    const scale = devicePixelRatio || 1;
    const size = [Math.round(canvas.clientWidth * scale), Math.round(tall * scale)];
    if (canvas.width !== size[0]) canvas.width = size[0];
    if (canvas.height !== size[1]) canvas.height = size[1];
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, tall);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    paintWaits(view, look, tall);
    const drawn = paintRows(view, look, tall);
    paintWaitWords(view, look, tall);
    paintRuler(view, look);
    return drawn;
  }

  function readColours() {
    for (const name of [...NAMED, ...BAR_KINDS.map((kind) => `kind-${kind}`)]) {
      colours.set(name, colourOf(canvas, name));
    }
  }

  /** @param {string} name */
  const colourAt = (name) => valueOf(colours, name);

  /**
   * @param {View} view
   * @param {PaintLook} look
   * @param {number} tall
   */
  function paintRows(view, look, tall) {
    const {rows} = view.layout;
    const first = Math.max(0, Math.floor(look.top / ROW));
    const last = Math.min(rows.length - 1, Math.ceil((look.top + tall - RULER) / ROW));
    let drawn = 0;
    context.save();
    context.beginPath();
    context.rect(0, RULER, look.width, tall - RULER);
    context.clip();
    for (let row = first; row <= last; row++) {
      drawn += paintRow(view, look, rows[row], RULER + row * ROW - look.top);
    }
    context.restore();
    return drawn;
  }

  /**
   * @param {View} view
   * @param {PaintLook} look
   * @param {Item[]} items
   * @param {number} y
   */
  function paintRow(view, look, items, y) {
    let drawn = 0;
    let covered = -1; // the pixel until which narrow bars have been drawn
    let marked = -Infinity; // the pixel where the last short bar with a mark ends
    /** @type {[Item, number, number][]} */
    const above = []; // short bars with marks, drawn above their neighbours
    /** @type {(item: Item, x: number, end: number) => void} */
    const paintItem = (item, x, end) => {
      paintBar(item, Math.max(x, -4), Math.min(end, look.width + 4), y);
      if (item.bar.id === look.selected) outline("accent", 2.5);
      else if (item === look.hovered) outline("ink", 1);
      if (end - Math.max(x, 0) > 24) paintLabel(item, Math.max(x, 0), end, y);
      else if (item.state in MARKS) paintMark(item, x, end, y);
      drawn += 1;
    };
    for (let number = firstAt(items, view.toTime(0)); number < items.length; number++) {
      const item = items[number];
      const x = view.toX(item.began);
      if (x > look.width) break;
      const own = view.endOf(item);
      const isSelected = item.bar.id === look.selected;
      if (own < 0 || (own < covered && !isSelected)) continue;
      const end = Math.max(Math.min(own, look.width + 20), x + LEAST);
      if (item.state in MARKS && end - x <= 24) {
        if (x < marked && !isSelected) continue;
        marked = end;
        above.push([item, x, end]);
        continue;
      }
      paintItem(item, x, end);
      covered = end - x > NARROW ? -1 : Math.max(end, covered);
    }
    for (const each of above) paintItem(...each);
    return drawn;
  }

  /**
   * @param {Item} item
   * @param {number} left
   * @param {number} right
   * @param {number} y
   */
  function paintBar(item, left, right, y) {
    const isInner = item.kind !== "agent";
    const kind = isInner ? item.kind : item.bar.place_kind ?? "function";
    const colour = colours.get(`kind-${kind}`) ?? colourAt("kind-function");
    const length = right - left;
    const [top, height] = isInner ? [y + 3, ROW - 7] : [y + 1, ROW - 3];
    context.beginPath();
    context.roundRect(left, top, length, height, Math.min(4, length / 4));
    context.fillStyle = colourAt("card");
    context.fill();
    context.fillStyle = fillOf(item, colour, left, right);
    context.fill();
    if (length <= 5) return;
    const own = OWN_COLOURS[item.state];
    context.setLineDash(item.state === "void" || item.state === "stopped" ? [3, 3] : []);
    context.strokeStyle = own ? colourAt(own) : withAlpha(colour, 0.8);
    context.lineWidth = item.state === "failed" ? 1.5 : 1;
    context.stroke();
    context.setLineDash([]);
  }

  /**
   * @param {string} name
   * @param {number} width
   */
  function outline(name, width) {
    context.strokeStyle = colourAt(name);
    context.lineWidth = width;
    context.stroke();
  }

  /**
   * @param {Item} item
   * @param {string} colour
   * @param {number} left
   * @param {number} right
   */
  function fillOf(item, colour, left, right) {
    const isAround = item.children.length > 0;
    if (item.state === "void") return hatch(colourAt("void"));
    if (item.kind === "question") return hatch(colourAt("wait"));
    if (item.state === "asks" && !isAround) return hatch(colourAt("wait"));
    if (item.state === "failed") return withAlpha(colourAt("bad"), 0.3);
    if (item.state === "running") return fade(colour, isAround ? 0.16 : 0.45, left, right);
    if (isAround) return withAlpha(colour, 0.12);
    return withAlpha(colour, item.kind === "agent" ? 0.34 : 0.5);
  }

  /** Fade the right end of a running bar, because it has no end yet.
   *
   * @param {string} colour
   * @param {number} alpha
   * @param {number} left
   * @param {number} right
   */
  function fade(colour, alpha, left, right) {
    const length = Math.max(right - left, 1);
    const gradient = context.createLinearGradient(left, 0, left + length, 0);
    gradient.addColorStop(0, withAlpha(colour, alpha));
    gradient.addColorStop(Math.max(0, 1 - 40 / Math.max(length, 41)), withAlpha(colour, alpha));
    gradient.addColorStop(1, withAlpha(colour, 0));
    return gradient;
  }

  /**
   * @param {Item} item
   * @param {number} left
   * @param {number} right
   * @param {number} y
   */
  function paintLabel(item, left, right, y) {
    const start = left + 5;
    const room = right - start - 3;
    if (room < 12) return;
    const mark = item.state in MARKS ? `${MARKS[item.state]} ` : "";
    const text = mark + fittingLabel(shortText(item.label, 60), room - context.measureText(mark).width);
    context.save();
    context.beginPath();
    context.rect(start, y, room, ROW);
    context.clip();
    context.fillStyle = colourAt(item.state === "void" ? "quiet" : "ink");
    context.fillText(text.slice(0, Math.ceil(room / 4)), start, y + ROW / 2 - 0.5);
    context.restore();
  }

  /** Return a label, or only its number if it is too long: "turn 2" of "report, turn 2".
   *
   * @param {string} label
   * @param {number} room
   */
  function fittingLabel(label, room) {
    const isLong = context.measureText(label).width > room;
    return isLong ? label.replace(/^.*, (?=(?:turn|iteration) \d+$)/, "") : label;
  }

  /**
   * @param {Item} item
   * @param {number} left
   * @param {number} right
   * @param {number} y
   */
  function paintMark(item, left, right, y) {
    const {width} = context.measureText(MARKS[item.state]);
    if (width > right - left) return;
    context.fillStyle = colourAt("ink");
    context.fillText(MARKS[item.state], (left + right - width) / 2, y + ROW / 2 - 0.5);
  }

  /** @param {string} colour */
  function hatch(colour) {
    const known = hatches.get(colour) ?? context.createPattern(hatchTile(colour), "repeat");
    hatches.set(colour, known);
    return known ?? colour;
  }

  /** @type {(wait: Wait, view: View) => [x: number, length: number]} */
  const placeOf = (wait, view) => [(wait.at - view.left) * view.scale, bandLength(wait) * view.scale];

  /**
   * @param {View} view
   * @param {PaintLook} look
   * @param {number} tall
   */
  function paintWaits(view, look, tall) {
    context.fillStyle = withAlpha(colourAt("quiet"), 0.12);
    for (const wait of view.waits) {
      const [x, length] = placeOf(wait, view);
      if (x < look.width && x + length > 0) context.fillRect(x, RULER, length, tall - RULER);
    }
  }

  /** Draw the lengths of the hidden waits into their bands: upwards if a band is narrow.
   *
   * @param {View} view
   * @param {PaintLook} look
   * @param {number} tall
   */
  function paintWaitWords(view, look, tall) {
    for (const wait of view.waits) {
      const [x, length] = placeOf(wait, view);
      const text = wait.isOpen ? "⋯" : durationText(wait.to - wait.from);
      if (length < LEAST_BAND || x + length < 0 || x > look.width) continue;
      const {width} = context.measureText(text);
      const isUpright = width + 4 > length;
      const [wide, high] = isUpright ? [WORD_HEIGHT, width + 4] : [width + 4, WORD_HEIGHT];
      context.save();
      context.translate(x + length / 2, tall - 4 - high / 2);
      context.fillStyle = withAlpha(colourAt("card"), 0.8);
      context.fillRect(-wide / 2, -high / 2, wide, high);
      if (isUpright) context.rotate(-Math.PI / 2);
      context.fillStyle = colourAt("quiet");
      context.fillText(text, -width / 2, 0);
      context.restore();
    }
  }

  /** Draw the ruler, which counts the shown time: without hidden waits.
   *
   * @param {View} view
   * @param {PaintLook} look
   */
  function paintRuler(view, {width}) {
    context.fillStyle = colourAt("card");
    context.fillRect(0, 0, width, RULER);
    context.fillStyle = colourAt("line");
    context.fillRect(0, RULER - 1, width, 1);
    context.fillStyle = colourAt("quiet");
    const step = niceStep(TICK / view.scale);
    const first = Math.max(0, Math.floor(shownTime(view.left, view.waits) / step));
    let free = -Infinity; // the pixel from which there is room for a label
    for (let number = first; number < first + MOST_TICKS; number++) {
      const x = (unitsOf(number * step, view.waits) - view.left) * view.scale;
      if (x > width) break;
      context.fillRect(x, RULER - 5, 1, 5);
      const text = axisText(number * step, step);
      const until = x + 3 + context.measureText(text).width;
      if (x < free || until > width) continue;
      context.fillText(text, x + 3, RULER / 2);
      free = until + 9;
    }
  }

  return {
    paint,
    forget() {
      colours.clear();
      hatches.clear();
    },
  };
}

/** @param {string} colour */
function hatchTile(colour) {
  const tile = el("canvas", {width: 8, height: 8});
  const pen = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
  pen.strokeStyle = withAlpha(colour, 0.7);
  pen.lineWidth = 1.6;
  pen.beginPath();
  for (const shift of [-8, 0, 8]) {
    pen.moveTo(shift, 8);
    pen.lineTo(shift + 8, 0);
  }
  pen.stroke();
  return tile;
}

/**
 * @param {string} colour
 * @param {number} alpha
 */
function withAlpha(colour, alpha) {
  if (!colour.startsWith("rgb(")) return colour;
  return colour.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
}

/** Round seconds up to a round number.
 *
 * @param {number} least
 */
function niceStep(least) {
  const long = [60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];
  if (least > 30) return long.find((step) => step >= least) ?? Math.ceil(least / 86400) * 86400;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5].map((each) => each * power).find((step) => step >= least) ?? 10 * power;
}

/**
 * @param {number} seconds
 * @param {number} step
 */
function axisText(seconds, step) {
  if (step < 0.001) return `${(seconds * 1000).toFixed(1)} ms`;
  if (step < 1 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (step < 1) return `${seconds.toFixed(step < 0.01 ? 3 : step < 0.1 ? 2 : 1)} s`;
  if (seconds < 60 && step < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  /** @param {number} number */
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours ? `${hours}:${two(minutes)} h` : `${minutes}:${two(whole % 60)} min`;
}
