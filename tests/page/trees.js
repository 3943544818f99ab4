// Trees and bars for tests, as the server sends them.

export function node(name, kind = "function", children = [], more = {}) {
  const id = more.id ?? name;
  return {
    id, name, kind, about: "", most: null, is_called: false, item: null, needs: [], undoes: null, children,
    ...more,
  };
}

export function bar(address, began, ended, more = {}) {
  const agent = address.split("/").at(-1).replace(/[[({].*/, "");
  return {
    id: more.id ?? address, turn: 0, address, agent_name: agent, kind: "agent", label: agent, node: agent,
    step: `step of ${address}`, iteration: null, began, ended, state: ended === null ? "running" : "done",
    tokens_in: 0, tokens_out: 0, text: "", inside: null, place: agent, ...more,
  };
}

export function knownBars(bars) {
  return new Map(bars.map((each) => [each.id, each]));
}

export function stateOf(bars, more = {}) {
  return {
    threadId: "t", line: null, selected: null, target: null,
    bars: knownBars(bars), ...more,
  };
}
