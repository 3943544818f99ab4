// The labels of bars, in the timeline, in its tips and for screen readers.

import {callOf, lastPart} from "./activations.js";
import {countText, durationText, el, icon, shortText, timeText} from "./elements.js";
import {stateText} from "./states.js";

/** @import {Bar} from "./page.d.ts" */

/** Return the label of a bar: the number of an iteration or turn, the key of an item.
 *
 * @param {Bar} bar
 */
export function labelOf(bar) {
  const name = bar.label || bar.agent_name;
  if (bar.kind !== "agent") return name;
  const part = lastPart(bar.address);
  const isOutermost = bar.inside === null || bar.inside === undefined;
  if (isOutermost) return bar.turn ? `${name}, turn ${bar.turn + 1}` : name;
  if (isLap(bar)) return `${name}, iteration ${(part.count ?? 0) + 1}`;
  if (part.call === null) return name;
  const number = Number(callOf(part));
  return `${name} ${part.key ?? (Number.isNaN(number) ? part.call : number + 1)}`;
}

/** Return whether a bar is one iteration of a loop.
 *
 * @param {Bar} bar
 */
export function isLap(bar) {
  return bar.place_kind === "loop" && lastPart(bar.address).count !== null;
}

/** Describe a bar in one line.
 *
 * @param {Bar} bar
 */
export function optionText(bar) {
  const length = bar.ended === null ? "" : durationText(bar.ended - bar.began);
  const [name, address] = [shortText(labelOf(bar), 60), shortText(bar.address, 120)];
  return [name, address, stateText(bar.state), length, shortText(bar.text, 120)].filter(Boolean).join(", ");
}

/** Return the nodes of the tip of a bar.
 *
 * @param {Bar} bar
 * @param {number} now
 */
export function tipNodes(bar, now) {
  const kind = (bar.kind === "agent" ? bar.place_kind : bar.kind) ?? "node";
  const tokens = (bar.tokens_in ?? 0) + (bar.tokens_out ?? 0);
  const ended = bar.ended ?? (bar.state === "running" ? now : null);
  const length = ended === null ? "" : durationText(ended - bar.began);
  const tokensText = tokens ? `${countText(tokens)} tokens` : "";
  const facts = [kind, stateText(bar.state), length, tokensText, timeText(bar.began)];
  const nodes = [
    el("b", {}, icon(kind), " ", el("bdi", {}, shortText(labelOf(bar), 80))),
    el("div", {class: "quiet"}, el("bdi", {}, shortText(bar.address, 160))),
    el("div", {}, facts.filter(Boolean).join(" · ")),
  ];
  if (bar.text) nodes.push(el("div", {class: "tip-text", dir: "auto"}, shortText(bar.text, 240)));
  return nodes;
}
