// Opens the window as a page of its own: its calls go to the server that served it.
//
// The token is kept for this tab, and leaves the address: nobody copies it by accident.

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

/** Keep in the address of the page what it shows.
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
