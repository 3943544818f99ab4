// The views of the open thread: the tree with its timeline, the conversation, the events, and its agents.

import {makeConversation} from "./conversation.js";
import {el, settings} from "./elements.js";
import {makeEventList} from "./event_list.js";
import {makeFlame} from "./flame.js";
import {makeTabs} from "./layout.js";
import {makeReader} from "./reader.js";

/** @import {Backend, Changed, State, Store} from "./page.d.ts" */
/** @import {AgentKind} from "./shapes.d.ts" */

/** @type {AgentKind[]} */
const CHATS = ["chat", "swarm"]; // roots of trees that people talk to

/** Make the views; at first a tree that people talk to shows the conversation.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {Node[]} work the tree, and what is shown with it
 */
export function makeViews(store, backend, work) {
  const reader = makeReader(store, backend);
  const conversation = makeConversation(store, backend, reader);
  const events = makeEventList(store, reader);
  const flame = makeFlame(store, backend);
  const panels = [reader, conversation, events, flame];
  let key = ""; // the setting of the tree's chosen view; empty until the tree is known
  const tabs = makeTabs("View", [
    ["work", "Tree and timeline", el("div", {class: "work"}, ...work)],
    ["talk", "Conversation", conversation.node],
    ["events", "Events", events.node],
    ["agents", "Agents", flame.node],
  ], (name) => {
    if (key) settings.set(key, name);
    store.set({view: /** @type {State["view"]} */ (name)});
  });
  tabs.node.classList.add("views");

  /** @param {State} state */
  function showFirst({about}) {
    const now = about ? `view.${about.tree.name}` : "";
    if (!about || now === key) return;
    key = now;
    const first = CHATS.includes(about.tree.kind) ? "talk" : "work";
    const chosen = settings.get(key, first);
    if (chosen !== tabs.shown) tabs.show(["talk", "events", "agents"].includes(chosen) ? chosen : "work");
  }

  return {
    node: tabs.node,
    /** Show the next view. */
    next() {
      const names = /** @type {const} */ (["work", "talk", "events", "agents"]);
      tabs.show(names[(names.findIndex((name) => name === tabs.shown) + 1) % names.length]);
    },
    focusMessage: conversation.focus,
    /**
     * @param {State} state
     * @param {Changed} changed
     */
    update(state, changed) {
      if (changed.has("about")) showFirst(state);
      for (const panel of panels) panel.update(state, changed);
    },
  };
}
