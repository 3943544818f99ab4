// The panels side by side, without the rest of the window: for tests.

import {makeActions} from "/page/actions.js";
import {makeDetail} from "/page/detail.js";
import {makeMachine} from "/page/machine.js";
import {makeQuestions} from "/page/questions.js";
import {makeStore} from "/page/store.js";
import {serverBackend} from "/page/backend.js";

const query = new URLSearchParams(location.search);
const backend = serverBackend(query.get("token"));
const store = makeStore(backend);
document.body.classList.add("agentgraph-window");
document.body.style.cssText = "display: block; overflow: auto; padding: 12px";
const grid = document.createElement("div");
grid.style.cssText = "display: grid; grid-template-columns: repeat(2, 1fr); gap: 24px; align-items: start";
const makers = [makeDetail, makeQuestions, makeActions, makeMachine];
const columns = [document.createElement("div"), document.createElement("div")];
grid.append(...columns);
makers.forEach((make, i) => {
  const panel = make(store, backend);
  store.add(panel);
  columns[i % 2].append(panel.node);
});
document.body.append(grid);
Object.assign(window, {store, backend});
store.set({about: await backend.call("about")});
store.open(query.get("thread"));
window.isOpen = true;
