// The help: the name and version of the product, the parts of the page, and the keys.

import {el, setText} from "./elements.js";

/** @import {State} from "./page.d.ts" */

const PARTS = [
  ["Threads", "conversations with the tree, newest first, a branch next to its origin; select one"],
  ["Tree", "the agents: what runs after what; a box opens its last activation"],
  ["Timeline", "when each agent, model and tool ran; a long bar is slow"],
  ["Conversation", "the thread as a chat: answer, edit, regenerate, branch onto a new thread"],
  ["Events", "all events as they were streamed; filter and copy them"],
  ["Agents", "how long each agent ran and waited in a turn, its tokens and cost; a row opens it"],
  ["Activation", "what the selected agent read, wrote and called"],
  ["Questions", "the questions of agents that wait for an answer"],
  ["Run", "start a run or a turn, steer, stop or resume it"],
  ["Rewind", "rerun from an activation, open older versions, compare"],
];
const KEY_HELP = [
  ["?", "show this help"],
  ["/", "search threads"],
  ["j, k", "select the next or previous activation"],
  ["g, G", "select the first or last activation"],
  ["l", "enter the timeline; Tab leaves it"],
  ["Enter", "open the selected bar (in the timeline)"],
  ["← → ↑ ↓", "move through the bars (in the timeline)"],
  ["+ − 0", "zoom the timeline in, out or to fit; the wheel zooms, dragging moves"],
  ["f, w", "follow running bars; hide long waits (in the timeline)"],
  ["n", "start a new run"],
  ["1, 2, 3, 4", "show Activation, Questions, Run, Rewind"],
  ["v", "show the next view: tree, conversation, events, agents"],
  ["t", "switch dark and light"],
  ["Esc", "close the help; clear the selection"],
];

/** Make the help: {node, update}. */
export function makeHelp() {
  const title = el("h2", {tabindex: -1, autofocus: true}, "agentgraph");
  const close = el("button", {type: "button", class: "primary"}, "Close");
  const node = el("dialog", {class: "help", "aria-label": "Help"},
    title,
    el("h3", {}, "Parts of the page"), termList(PARTS.map(([name, text]) => [el("b", {}, name), text])),
    el("h3", {}, "Keys"), termList(KEY_HELP.map(([keys, text]) => [el("kbd", {}, keys), text])),
    close);
  close.addEventListener("click", () => node.close());
  return {
    node,
    /** @param {State} state */
    update: ({about}) => setText(title, about ? `agentgraph ${about.version}` : "agentgraph"),
  };
}

/** @param {[term: Node, text: string][]} entries */
function termList(entries) {
  return el("dl", {}, ...entries.flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]));
}
