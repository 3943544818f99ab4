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
  const place = {thread: query.get("thread"), line: query.get("line"), at: query.get("at")};
  note(place);
  mount(document.body, serverBackend(token), {...place, note});
}

/** Update the address of the page to its thread, version and selection.
 *
 * @param {Shown} shown
 */
function note({thread, line, at, title}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({thread, line, at})) if (value) query.set(name, value);
  const address = query.size ? `/?${query}` : "/";
  if (address !== location.pathname + location.search) history.replaceState(null, "", address);
  if (title) document.title = title;
}

openPage();
