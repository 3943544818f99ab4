// Opens the window as a page of its own: its calls go to the server that served it.

import {serverBackend} from "./backend.js";
import {mount} from "./window.js";

const query = new URLSearchParams(location.search);
mount(document.body, serverBackend(query.get("token") ?? ""), {thread: query.get("thread")});
