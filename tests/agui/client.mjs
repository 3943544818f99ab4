// The official client against the trees of agui_server.py: `make agui`. It verifies the order of events.
// Usage: node client.mjs <address>. Prints the messages of each conversation; exits with 1 at a fault.
import { HttpAgent } from "@ag-ui/client";

const address = process.argv[2];
const answers = { loop: () => "yes", approval: () => ({ decisions: [{ type: "approve" }] }) };
const tools = [
  { name: "set_color", description: "Set the color.", parameters: { type: "object", properties: {} } },
  { name: "look", description: "Look at the page." },
];
const wanted = {
  chat: ["u: Go.", "chat: Let me look.", "tool: sunny in Bonn", "chat: Done. sunny in Bonn"],
  parallel: ["u: Go.", "ann: one two three four five", "bob: six seven eight nine ten", "first: First."],
  loop: ["u: Go.", "writer: Draft 0.", "critic: Too short.", "writer: Draft 1.", "boss: yes"],
  supervisor: ["u: Go.", "assistant:", "tool: They hum.", "research: They hum.", "lead: Done. They hum."],
  approval: ["u: Go.", "post:", "tool: sent to Ann", "post: Done. sent to Ann"],
  frontend: ["u: Go.", "assistant:", "tool: sunny in Rome", "tool: set_color done", "tool: look done",
    "ui: Done. set_color done sunny in Rome look done"],
  values: ["u: Go.", "tells: About bees."],
  failure: ["u: Go.", "first: First."],
  mind: ["u: Go.", "reasoning: Hm, well.", "mind: Yes."],
};
const problems = [];
console.warn = (...args) => problems.push(args.join(" "));
console.error = (...args) => problems.push(args.join(" "));

for (const [tree, expected] of Object.entries(wanted)) {
  const agent = new HttpAgent({ url: `${address}/${tree}`, threadId: `node-${tree}` });
  agent.messages = [{ id: `${tree}-1`, role: "user", content: "Go." }];
  let failed = "";
  let pending = [];
  const watch = {
    onRunErrorEvent: ({ event }) => { failed = event.message; },
    onRunFinishedEvent: ({ event }) => { pending = event.outcome?.pendingToolCallIds ?? []; },
  };
  await agent.runAgent({ tools }, watch);
  for (let round = 0; round < 5 && (pending.length || agent.pendingInterrupts.length); round++) {
    const resume = agent.pendingInterrupts.map((each) => (
      { interruptId: each.id, status: "resolved", payload: answers[tree](each) }));
    const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
    for (const id of pending) {
      const name = calls.find((call) => call.id === id).function.name;
      agent.addMessage({ id: `result-${id}`, role: "tool", toolCallId: id, content: `${name} done` });
    }
    pending = [];
    await agent.runAgent({ tools, ...(resume.length ? { resume } : {}) }, watch);
  }
  const said = agent.messages.map(
    (m) => `${m.role === "user" && !m.name ? "u" : m.name ?? m.role}: ${m.content ?? ""}`.trim());
  console.log(tree, JSON.stringify(said), JSON.stringify(agent.state));
  if (JSON.stringify(said) !== JSON.stringify(expected)) problems.push(`${tree}: wanted ${expected}`);
  if ((failed !== "") !== (tree === "failure")) problems.push(`${tree}: ${failed}`);
}

// An answer again, and an edited message: each agent's message is a new one, and the later turn is gone.
const chat = new HttpAgent({ url: `${address}/chat`, threadId: "node-edits" });
chat.addMessage({ id: "e1", role: "user", content: "Go." });
await chat.runAgent();
chat.addMessage({ id: "e2", role: "user", content: "Again." });
await chat.runAgent();
for (const content of ["Go.", "Edited."]) {
  const before = chat.messages.map((message) => message.id);
  chat.setMessages([{ id: "e1", role: "user", content }]);
  await chat.runAgent();
  console.log("edits", JSON.stringify(chat.messages.map((message) => message.content)));
  if (chat.messages.length !== 4) problems.push(`edits: ${content}: ${chat.messages.length} messages`);
  if (chat.messages.slice(1).some((message) => before.includes(message.id))) {
    problems.push(`edits: ${content}: an old answer`);
  }
}
const [edited, called, result] = chat.messages;
chat.setMessages([edited, called, result]);
await chat.runAgent();
if (chat.messages.length !== 4) problems.push(`edits: an answer again: ${chat.messages.length} messages`);
chat.addMessage({ id: "e3", role: "user", content: "More." });
await chat.runAgent();
const last = chat.messages.findIndex((message) => message.id === "e3");
chat.setMessages([...chat.messages.slice(0, last), { id: "e4", role: "user", content: "Other." }]);
await chat.runAgent();
const users = chat.messages.filter((message) => message.role === "user").map((message) => message.content);
if (JSON.stringify(users) !== JSON.stringify(["Edited.", "Other."])) problems.push(`edits: ${users}`);

// An answer from another client while the run works: the other branch ends only after it. Both have the rest.
const asking = new HttpAgent({ url: `${address}/meeting`, threadId: "node-meeting" });
const answering = new HttpAgent({ url: `${address}/meeting`, threadId: "node-meeting" });
asking.addMessage({ id: "m1", role: "user", content: "Go." });
let answered;
await asking.runAgent({}, {
  onCustomEvent: ({ event }) => {
    if (event.name !== "agentgraph.interrupted") return;
    const { id } = event.value.interrupt;
    answered = answering.runAgent({ resume: [{ interruptId: id, status: "resolved", payload: "yes" }] });
  },
});
await answered;
for (const each of [asking, answering]) {
  const said = each.messages.map((message) => message.content).sort();
  console.log("meeting", JSON.stringify(said));
  const rest = said.filter((text) => text !== "Go.");
  if (JSON.stringify(rest) !== JSON.stringify(["Here.", "We met.", "yes"])) problems.push(`meeting: ${said}`);
  if (each.pendingInterrupts.length) problems.push("meeting: an answered question is pending");
}

if (problems.length) {
  process.stderr.write(`${problems.join("\n")}\n`);
  process.exit(1);
}
