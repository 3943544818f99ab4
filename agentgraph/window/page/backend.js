// Where the window gets its data from, and does what people want: {call, follow}.
//
// call(name, arguments) resolves to the answer, or rejects with an Error that has the server's words
// as its message and the name of the error as `kind`. follow(thread, since, hear) calls
// hear(kind, data) for what is new ("thread", "timeline", "text", and "lost" and "found" for the
// connection), and returns a function that ends it.

export function serverBackend(token) {
  return {
    async call(name, args = {}) {
      const headers = {"Content-Type": "application/json", "X-Token": token};
      let reply;
      try {
        reply = await fetch(`/call/${name}`, {method: "POST", headers, body: JSON.stringify(args)});
      } catch {
        throw Object.assign(new Error("The server does not answer."), {kind: "lost"});
      }
      const data = await reply.json().catch(() => ({}));
      if (reply.ok) return data;
      throw Object.assign(new Error(data.detail ?? reply.statusText), {kind: data.error});
    },

    follow(thread, since, hear) {
      const query = new URLSearchParams({token, thread, ...(since ? {since} : {})});
      const source = new EventSource(`/news?${query}`);
      for (const kind of ["thread", "timeline", "text"]) {
        source.addEventListener(kind, (event) => hear(kind, JSON.parse(event.data)));
      }
      source.addEventListener("open", () => hear("found"));
      source.addEventListener("error", () => hear("lost"));
      return () => source.close();
    },
  };
}
