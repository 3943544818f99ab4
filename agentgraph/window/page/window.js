// The window: threads, the tree, the timeline, one activation, questions, the time machine.

export async function mount(root, backend, {thread = null} = {}) {
  root.classList.add("agentgraph-window");
  const about = await backend.call("about");
  root.textContent = about.title;
  if (thread) backend.follow(thread, null, (kind, data) => console.log(kind, data));
}
