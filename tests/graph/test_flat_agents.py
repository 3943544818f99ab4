"""Graph agents with `flat=True`: what their nodes are in the tree, and what they cost."""

import operator
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from helpers import Disk, Drive, add, chat, failing, in_turn, lines, says, scripted, sees, unvoided
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, hook_config
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import CachePolicy, Command, RetryPolicy, Send, interrupt

import agentgraph as ag
from agentgraph.agents.agents import GraphAgent
from agentgraph.errors import SeveralWaysError
from agentgraph.testing import call, calls, pairing_faults


class State(MessagesState):
    log: Annotated[list[Any], operator.add]
    last: str


Node = Callable[[Any], Any]


def graph(nodes: dict[str, Node], *edges: tuple[str, Any], **options: Any) -> Any:
    """Return a graph that begins at its first node; a way on is a node, or a function of the state."""
    builder = StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node)
    builder.add_edge(START, next(iter(nodes)))
    for name, way in edges:
        (builder.add_conditional_edges if callable(way) else builder.add_edge)(name, way)
    return builder.compile(**options)


def word(text: str, **update: Any) -> Node:
    return lambda state: {"messages": [AIMessage(text)], **update}


def asks(prompt: str) -> Node:
    return lambda state: {"messages": [AIMessage(f"{prompt} {interrupt(prompt)}")]}


def job(given: Any, **options: Any) -> GraphAgent:
    return ag.graph_agent("job", given, flat=True, **options)


def reflection(rounds: int = 2) -> Any:
    def critic(state: Any) -> Command[Literal["planner", "boss"]]:
        is_done = len(state["log"]) + 1 == rounds
        return Command(update={"log": ["seen"]}, goto="boss" if is_done else "planner")

    nodes = {"planner": word("A plan."), "critic": critic, "boss": asks("Well?")}
    return graph(nodes, ("planner", "critic"))


def test_each_node_has_an_address_and_a_run_path(disk: Disk) -> None:
    tree = ag.sequential("s", [job(reflection(), output_key="k"), sees("z")])
    heard = [*disk.run(tree), *disk.resume(tree, "So.")]
    assert [(event.address, str(event.run_path)) for event in heard] == [
        ("s/job/planner", "s/job/planner"),
        ("s/job/planner[1]", "s/job/planner"),
        ("s/job/boss", "s/job/boss"),
        ("s/job/boss", "s/job/boss"),
        ("s/z", "s/job/z"),
    ]
    assert (
        heard[-1].text == "saw Go. | [job] said: A plan. | [job] said: A plan. | [job] said: Well? So."
    )
    assert disk.events(tree) == unvoided(heard)


def test_it_is_drawn_as_its_graph_is() -> None:
    drawn = ag.compile_agent(ag.sequential("s", [job(reflection()), says("z")])).get_graph()
    assert {(edge.source, edge.target) for edge in drawn.edges} == {
        ("__start__", "job"),
        ("job", "job.planner"),
        ("job.planner", "job.critic"),
        ("job.critic", "job.planner"),
        ("job.critic", "job.boss"),
        ("job.boss", "z"),
        ("z", "__end__"),
    }


@tool
def person(what: str) -> str:
    """Ask a person."""
    return f"{what} {interrupt(what)}"


def agent(*responses: Any, **options: Any) -> Any:
    return create_agent(scripted(*responses), [add, person], **options)


def test_calls_of_langchains_agent_run_side_by_side_and_none_again(disk: Disk) -> None:
    asked = calls(
        call("add", "1", a=1, b=2), call("person", "2", what="A?"), call("person", "3", what="B?")
    )
    tree = job(agent(asked, "Done."))
    assert lines(disk.run(tree))[1:] == ["job/tools: 3", "job/tools: [asks] A?", "job/tools: [asks] B?"]
    runner_of = ag.Runner(tree, checkpointer=str(disk.path))
    with runner_of as runner:
        second = runner.pending("t")[1]
    assert second.address == "job/tools"
    disk.resume(tree, {second.id: "b"})
    assert lines(disk.resume(tree, "a")) == ["job/tools: A? a", "job/model[1]: Done."]
    assert disk.events(tree) == unvoided(disk.heard)


def test_a_turn_that_is_given_up_keeps_the_calls_that_ended(drive: Drive) -> None:
    asked = calls(call("add", "1", a=1, b=2), call("person", "2", what="A?"))
    runner = ag.Runner(job(agent(asked, "Done.")))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.run(runner, "Next.", thread_id="t", drop_pending=True))
    said = [message.text for message in runner.thread("t").messages]
    assert said[2:5] == ["3", "The call was not finished.", "Next."]


def test_packets_run_at_the_same_time_and_see_what_they_were_sent(drive: Drive) -> None:
    both = threading.Barrier(2, timeout=20)

    def work(packet: Any) -> Any:
        both.wait()
        return {"log": [packet["n"]], "messages": [AIMessage(f"Worked on {packet['n']}.")]}

    nodes = {"begin": word("Begun."), "work": work, "sum": lambda s: word(str(sorted(s["log"])))(s)}
    sends = lambda state: [Send("work", {"n": n}) for n in range(2)]  # noqa: E731
    runner = ag.Runner(job(graph(nodes, ("begin", sends), ("work", "sum"))))
    said = lines(drive.run(runner, "Go.", thread_id="t"))
    assert [said[0], *sorted(said[1:3]), said[3]] == [
        "job/begin: Begun.",
        "job/work: Worked on 0.",
        "job/work: Worked on 1.",
        "job/sum: [0, 1]",
    ]


def built(*edges: tuple[Any, str], **options: Any) -> Any:
    """Return a graph of the nodes `a`, `b` and `c` with static edges."""
    builder = StateGraph(State)
    for name in "abc":
        builder.add_node(name, word(name), cache_policy=options.pop("cached", None))
    for start, end in [(START, "a"), *edges]:
        builder.add_edge(start, end)
    return builder.compile(**options)


FAULTS: dict[str, tuple[Any, str]] = {
    "two edges": (
        built(("a", "b"), ("a", "c")),
        "its graph continues from 'a' at 'b' and 'c' in parallel; pass flat=False",
    ),
    "a join": (
        built(("a", "b"), (["a", "b"], "c")),
        "its graph waits for 'a' and 'b' before 'c'; pass flat=False",
    ),
    "a cache": (
        built(("a", "b"), cached=CachePolicy()),
        "its node 'a' has a cache_policy; pass flat=False",
    ),
    "a tree": (
        ag.compile_agent(says("a")),
        "its graph is a compiled tree of agents; put the tree there as it is, or pass flat=False",
    ),
}


@pytest.mark.parametrize(("given", "fault"), FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_laid_flat_is_refused_before_it_runs(given: Any, fault: str) -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(job(given))
    assert caught.value.faults == (f"job: flat=True: {fault}",)


def test_only_a_graph_with_nodes_can_be_laid_flat() -> None:
    @entrypoint()
    def flow(given: Any) -> Any:
        return given

    with pytest.raises(
        ag.InvalidAgentError, match=r"job: flat=True takes a compiled StateGraph, .*; pass flat=False"
    ):
        ag.compile_agent(job(flow, output=str))


def both_ways(state: Any) -> list[str]:
    return ["b", "c"]


def packet_and_way(state: Any) -> list[Any]:
    return [Send("b", {}), Send("c", {})]


@pytest.mark.parametrize("way", [both_ways, packet_and_way, lambda state: Command(goto=["b", "c"])])
def test_a_second_way_on_is_an_error_that_says_what_to_do(drive: Drive, way: Any) -> None:
    nodes = {"a": way if way.__name__ == "<lambda>" else word("A."), "b": word("B."), "c": word("C.")}
    runner = ag.Runner(job(graph(nodes, *([] if way.__name__ == "<lambda>" else [("a", way)]))))
    heard, error = failing(drive.run(runner, "Go.", thread_id="t"), SeveralWaysError)
    assert str(error) == (
        "job/a: the graph continues at 'b' and 'c' in parallel, which a flattened graph cannot do; "
        "pass flat=False to graph_agent('job', ...)"
    )
    assert [event.kind for event in heard] == ["error"]


def test_another_node_than_its_own_is_an_error_that_names_them(drive: Drive) -> None:
    runner = ag.Runner(job(graph({"a": lambda state: Command(goto="nowhere"), "b": word("B.")})))
    with pytest.raises(ag.InvalidOutputError, match=r"continues at 'nowhere', .* nodes: 'a', 'b'"):
        list(drive.run(runner, "Go.", thread_id="t"))


def test_a_graph_without_end_meets_its_limit_of_steps(drive: Drive) -> None:
    endless = graph({"a": word("A.")}, ("a", "a")).with_config(recursion_limit=3)
    heard, error = failing(
        drive.run(ag.Runner(job(endless)), "Go.", thread_id="t"), ag.MaxIterationsError
    )
    assert [event.address for event in heard] == ["job/a", "job/a[1]", "job/a[2]", "job/a[3]"]
    assert str(error).startswith("job/a[3]: 3 nodes of the graph have run in this activation")


def test_a_failed_node_is_tried_again_and_no_other(disk: Disk) -> None:
    ran: list[str] = []

    def node(name: str, then: Node) -> Node:
        return lambda state: (ran.append(name), then(state))[1]

    flaky = in_turn(ConnectionError("down"), word("B."))
    tree = job(graph({"a": node("a", word("A.")), "b": node("b", flaky)}, ("a", "b")))
    disk.fail(tree, "run", ConnectionError)
    assert lines(disk.resume(tree)) == ["job/b: B."]
    assert ran == ["a", "b", "b"]


def test_a_failure_that_a_branch_ends_with_is_said_by_the_agent_at_the_node(drive: Drive) -> None:
    made = graph({"a": word("A."), "b": in_turn(ValueError("no"))}, ("a", "b"))
    tree = ag.parallel("p", [job(made), says("z")], on_error="collect")
    heard = [event for event in drive.run(ag.Runner(tree), "Go.", thread_id="t") if event.message]
    assert [(event.address, event.message.name) for event in heard if event.agent_name != "z"] == [
        ("p/job/a", "job"),
        ("p/job/b", "job"),
    ]


def test_retry_is_of_a_node_and_the_nodes_own_policy_comes_first(drive: Drive) -> None:
    builder = StateGraph(State)
    builder.add_node("a", in_turn(ValueError("no"), word("A.")), retry_policy=once_more(ValueError))
    builder.add_node("b", in_turn(KeyError("no"), word("B.")))
    made = builder.add_edge(START, "a").add_edge("a", "b").compile()
    runner = ag.Runner(job(made, retry=once_more(KeyError)))
    assert lines(drive.run(runner, "Go.", thread_id="t")) == ["job/a: A.", "job/b: B."]


def once_more(on: type[Exception]) -> RetryPolicy:
    return RetryPolicy(max_attempts=2, initial_interval=0.001, jitter=False, retry_on=on)


def test_its_state_is_no_value_of_the_run_and_the_other_way_round(drive: Drive) -> None:
    nodes = {"a": lambda s: {"last": "mine"}, "b": lambda s: word(f"{sorted(s)}")(s)}
    runner = ag.Runner(job(graph(nodes, ("a", "b"))))
    heard = list(drive.run(runner, "Go.", thread_id="t", values={"last": "yours", "log": "no list"}))
    assert lines(heard) == ["job/b: ['last', 'log', 'messages']"]
    assert runner.thread("t").values == {"last": "yours", "log": "no list"}


def test_input_is_all_that_the_graph_gets_and_output_all_that_it_says(drive: Drive) -> None:
    made = graph({"a": lambda s: word(f"{[m.text for m in s['messages']]} {s['last']}", last="out")(s)})
    options: Any = {"input": lambda ctx: {"messages": [("user", "Else.")], "last": ctx.values["v"]}}
    said = [job(made, **options), job(made, **options, output=lambda s: [s["last"], ag.SetValues(n=1)])]
    for tree, texts in zip(said, (["job/a: ['Else.'] in"], ["job: out"]), strict=True):
        heard = list(drive.run(ag.Runner(tree), "Go.", thread_id="t", values={"v": "in"}))
        assert [f"{event.address}: {event.text}" for event in heard if event.text] == texts


def test_an_output_that_fails_is_tried_again_without_a_node(drive: Drive) -> None:
    ran: list[str] = []
    output = in_turn(ValueError("no"), lambda state: "Out.")
    made = graph({"a": lambda s: ran.append("a")})
    runner = ag.Runner(job(made, output=output))
    failing(drive.run(runner, "Go.", thread_id="t"), ValueError)
    assert lines(drive.resume(runner, "t")) == ["job: Out."]
    assert ran == ["a"]


def test_its_words_are_on_the_way_to_the_agents_after_it_and_to_itself(drive: Drive) -> None:
    seen: list[list[str]] = []

    def given(ctx: ag.Context) -> Any:
        seen.append([message.text for message in ctx.messages])
        return {"messages": []}

    made = job(graph({"a": word("A.")}), input=given, history="path")
    tree = ag.loop("l", [made, sees("z", history="path")], max_iterations=2)
    assert lines(drive.run(ag.Runner(tree), "Go.", thread_id="t"))[:2] == [
        "l[0]/job/a: A.",
        "l[0]/z: saw Go. | [job] said: A.",
    ]
    assert seen == [["Go."], ["Go.", "A.", "[z] said: saw Go. | [job] said: A."]]


def test_models_in_its_nodes_stream_at_the_address_of_the_node(drive: Drive) -> None:
    model = scripted("A long text.", "Not said.", "Yes.")

    def think(state: Any) -> Any:
        said = model.invoke(state["messages"])
        model.invoke("Judge it.")
        return {"messages": [said]}

    tree = job(
        graph(
            {"think": think, "write": lambda s: {"messages": [model.invoke("So?")]}}, ("think", "write")
        )
    )
    heard = list(drive.run(ag.Runner(tree), "Go.", thread_id="t", stream=True))
    partial = {(event.address, event.id) for event in heard if event.partial}
    whole = [(event.address, event.id) for event in heard if event.message and not event.partial]
    assert [at for at, _ in whole] == ["job/think", "job/write"]
    (unsaid,) = partial - {*whole}
    assert unsaid[0] == "job/think"
    assert [event.action.discarded for event in heard if event.kind == "discarded"] == [(unsaid[1],)]  # type: ignore[union-attr]


def test_what_a_node_streams_and_then_hands_over_without_is_void(drive: Drive) -> None:
    model = scripted("Not said.")

    def leave(state: Any) -> Any:
        model.invoke("Think.")
        return Command(goto="boss", graph=Command.PARENT)

    boss = chat(
        "boss", calls(call("transfer_to_job")), "So.", sub_agents=[job(graph({"leave": leave}))]
    )
    heard = list(drive.run(ag.Runner(boss), "Go.", thread_id="t", stream=True))
    streamed = {event.id for event in heard if event.partial and event.agent_name == "leave"}
    (void,) = (event.action.discarded for event in heard if event.kind == "discarded" and event.action)
    assert {*void} == streamed


def test_models_in_a_node_that_is_named_as_a_chat_agent_are_streamed_at_the_same_time(
    drive: Drive,
) -> None:
    first, second = (scripted(text) for text in ("One text.", "Two texts."))

    def writer(state: Any) -> Any:
        two = zip(first.stream("Go."), second.stream("Go."), strict=True)
        texts = [*zip(*((a.text, b.text) for a, b in two), strict=True)]
        return {"messages": [AIMessage("".join(text)) for text in texts]}

    tree = ag.sequential("s", [job(graph({"writer": writer})), chat("writer", "Hm.")])
    heard = drive.run(ag.Runner(tree), "Go.", thread_id="t", stream=True)
    kinds = [event.kind for event in heard if event.address == "s/job/writer" and not event.partial]
    assert kinds == ["message", "message", "discarded"]


def test_a_handoff_tool_of_its_leads_to_another_agent(drive: Drive) -> None:
    @tool
    def back() -> Command[Any]:
        """Hand over to the boss."""
        return Command(goto="boss", graph=Command.PARENT)

    ann = ag.graph_agent(
        "ann", create_agent(scripted(calls(call("back")), "Never."), [back]), flat=True
    )
    boss = ag.chat_agent("boss", scripted(calls(call("transfer_to_ann")), "So."), sub_agents=[ann])
    heard = list(drive.run(ag.Runner(boss), "Go.", thread_id="t"))
    assert lines(heard)[3:] == [
        "boss[1]/ann/model: [calls] back({})",
        "boss[1]/ann/tools: Transferred to boss.",
        "boss[1]/ann/tools: [transfer_to] boss",
        "boss[2]: So.",
    ]


def test_a_graph_in_a_node_asks_and_goes_on_by_a_command(disk: Disk) -> None:
    inner = graph(
        {"x": asks("Deep?"), "y": lambda s: Command(goto="after", graph=Command.PARENT)}, ("x", "y")
    )
    builder = StateGraph(State).add_node("sub", inner, destinations=("after",))
    builder.add_node("after", word("After."))
    tree = job(builder.add_edge(START, "sub").compile())
    assert lines(disk.run(tree)) == ["job/sub: [asks] Deep?"]
    assert lines(disk.resume(tree, "Yes.")) == ["job/after: After."]
    assert disk.events(tree) == unvoided(disk.heard)


def around(tree: ag.Agent) -> dict[str, ag.Agent]:
    asks_for_it = scripted(calls(call("job", request="Do it.")), "So.")
    return {
        "a branch": ag.parallel("p", [tree, says("b")]),
        "a tool": ag.chat_agent("c", asks_for_it, tools=[ag.agent_tool(tree, description="Does it.")]),
        "a loop": ag.loop("l", [tree], max_iterations=2),
        "a step": ag.workflow("w", [ag.step(tree), ag.step(says("b"), depends_on=["job"])]),
        "a check": ag.validated(tree, in_turn(lambda text: "no", lambda text: None)),
    }


@pytest.mark.parametrize("where", list(around(says("job"))))
def test_it_runs_wherever_agents_do(disk: Disk, where: str) -> None:
    tree = around(job(reflection()))[where]
    disk.run(tree)
    while True:
        with ag.Runner(tree, checkpointer=str(disk.path)) as runner:
            waiting = list(runner.pending("t"))
        if not waiting:
            break
        assert {question.agent_name for question in waiting} == {"boss"}
        disk.resume(tree, {question.id: "So." for question in waiting})
    said = [event.text for event in disk.heard if event.agent_name == "boss" and event.message]
    assert {*said} == {"Well? So."}
    assert disk.events(tree) == unvoided(disk.heard)


class Tenant(TypedDict):
    tenant: str


class Runs(BaseCallbackHandler):
    """Notes the addresses in the metadata of the runs of two nodes."""

    def __init__(self) -> None:
        self.addresses: list[str] = []

    def on_chain_start(self, *_: Any, metadata: Any = None, name: str = "", **__: Any) -> None:
        if name in ("a", "b"):
            self.addresses.append(metadata["agent_address"])


def test_its_nodes_have_the_context_and_are_traced_as_agents(drive: Drive) -> None:
    def tenant(state: Any) -> Any:
        return word(f"For {get_runtime(dict).context['tenant']}.")(state)

    runner = ag.Runner(job(graph({"a": tenant, "b": tenant}, ("a", "b"))), context_schema=Tenant)
    runs = Runs()
    heard = drive.run(
        runner, "Go.", thread_id="t", context={"tenant": "Ada"}, config={"callbacks": [runs]}
    )
    assert lines(heard) == ["job/a: For Ada.", "job/b: For Ada."]
    assert runs.addresses == ["job/a", "job/b"]


def size_of(tree: ag.Agent, path: Path) -> tuple[int, int]:
    """Return how many checkpoints a run leaves in a file, and their bytes."""
    with ag.sqlite_saver(path) as saver:
        list(ag.Runner(tree, checkpointer=saver).run("Go.", thread_id="t"))
    with closing(sqlite3.connect(path)) as file:
        (count,) = file.execute("SELECT COUNT(*) FROM checkpoints").fetchone()
        (size,) = file.execute("SELECT SUM(LENGTH(checkpoint)) FROM checkpoints").fetchone()
    return int(count), int(size)


def test_a_step_costs_what_a_step_of_the_tree_costs(tmp_path: Path) -> None:
    def rounds(number: int) -> Any:
        way = lambda state: END if len(state["log"]) >= number else "a"  # noqa: E731
        return graph(
            {"a": word("A text."), "b": lambda s: {"log": [1], "messages": [AIMessage("B.")]}},
            ("a", "b"),
            ("b", way),
        )

    own = ag.loop("l", [says("a", "A text."), says("b", "B.")], max_iterations=100)
    count, size = size_of(own, tmp_path / "own.db")
    flat_count, flat_size = size_of(job(rounds(100)), tmp_path / "flat.db")
    _, inside_size = size_of(ag.graph_agent("job", rounds(100)), tmp_path / "inside.db")
    assert flat_count <= count + 2
    assert flat_size <= 2 * size
    assert inside_size >= 10 * flat_size


class JumpsToTools(AgentMiddleware[Any, Any, Any]):
    """Jumps to the tools as soon as there are calls, as a guard may."""

    @hook_config(can_jump_to=["tools"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        said = [each for each in state["messages"] if each.type == "ai"][-1]
        return {"jump_to": "tools"} if said.tool_calls else None


@pytest.mark.parametrize("kind", ["chat", "flat"])
@pytest.mark.parametrize("decided", [["reject"], ["reject", "approve"], ["approve", "reject"]])
def test_a_rejected_call_is_not_run_though_a_hook_jumps_to_the_tools(
    drive: Drive, kind: str, decided: list[str]
) -> None:
    ran: list[str] = []

    def remove(path: str) -> str:
        """Remove a file."""
        ran.append(path)
        return "Removed."

    made = calls(*(call("remove", f"{n}", path=how) for n, how in enumerate(decided)))
    model = scripted(made, "Done.")
    middleware = [JumpsToTools(), HumanInTheLoopMiddleware({"remove": True})]
    if kind == "chat":
        agent: ag.Agent = ag.chat_agent("desk", model, tools=[remove], middleware=middleware)
    else:
        made_graph = create_agent(model, tools=[remove], middleware=middleware)
        agent = ag.graph_agent("desk", made_graph, flat=True)
    runner = ag.Runner(ag.sequential("s", [agent]))
    list(drive.run(runner, "Go.", thread_id="t"))
    answer = {"decisions": [{"type": each} for each in decided]}
    assert lines(drive.resume(runner, "t", answer))[-1].endswith(": Done.")
    assert ran == [each for each in decided if each == "approve"]
    assert pairing_faults(model.inputs[-1]) == []
