// Opens the window as its own page: its calls go to the server of the page.
//
// The token is stored for this tab and removed from the address, so that it is not copied by accident.

import {serverBackend} from "./backend.js";
import {mount} from "./window.js";

/** @import {Shown} from "./window.js" */

const TOKEN = "agentgraph.token";

function openPage() {
  const query = new URLSearchParams(location.search);
  const token = query.get("token") ?? sessionStorage.getItem(TOKEN) ?? "";
  sessionStorage.setItem(TOKEN, token);
  const tree = query.get("tree");
  const place = {thread: query.get("thread"), line: query.get("line"), at: query.get("at")};
  note({...place, tree});
  document.body.addEventListener("showtree", (event) => {
    location.assign(addressOf(/** @type {CustomEvent<Shown>} */ (event).detail));
  });
  mount(document.body, serverBackend(token, tree ?? ""), {...place, note});
}

/** Update the address of the page to its tree, thread, version and selection.
 *
 * @param {Shown} shown
 */
function note({title, ...place}) {
  const address = addressOf(place);
  if (address !== location.pathname + location.search) history.replaceState(null, "", address);
  if (title) document.title = title;
}

/** @param {Shown} place */
function addressOf({tree, thread, line, at}) {
  const query = new URLSearchParams();
  const parts = Object.entries({tree, thread, line, at});
  for (const [name, value] of parts) if (value) query.set(name, value);
  return query.size ? `/?${query}` : "/";
}

openPage();
