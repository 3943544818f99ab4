"""Habits of newcomers are answered by an error with the code to write instead."""

import asyncio
import copy
import inspect
import pickle
import traceback
import typing
from abc import ABC
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from helpers import says

import agentgraph as ag
from agentgraph.agents.habits.options import hints_options
from agentgraph.testing import ScriptedChatModel

MODEL: Any = ScriptedChatModel(responses=["Hi."])
A, B = says("a"), says("b")
RUNNER: Any = ag.Runner(A)
of: Any = ag
"""The package, as a newcomer sees it who has no type checker."""

INSTRUCTION = "use instruction="
SCHEMA = "use output_schema=, which accepts the same types"
STATE = "declare values with ag.Runner(tree, values=State) or ag.compile_agent(tree, values=State)"
SAVER = "pass it to ag.Runner(tree, ...) or ag.compile_agent(tree, ...)"
APPROVE = (
    "use approve=[tool names] or approve={...} (LangChain's interrupt_on); to stop before an agent, "
    "put ag.human(...) in front of it"
)
HANDOFF = "use sub_agents=[...]; ag.handoff(agent, name=...) names the tool"
LIMITS = (
    "use limits=ag.Limits(model_calls=..., steps=...); a loop or chat agent also takes max_iterations="
)
CONFIGURED = (
    'pass a configured LangChain model as model=: init_chat_model("openai:gpt-5", temperature=0)'
)
MIDDLEWARE = "use middleware=[...] (LangChain's); callbacks go into config= of a run"
FILE = 'use checkpointer="runs.db"'
FIRST = "pass it as the first argument"

CHAT_OPTIONS = {
    **dict.fromkeys(("prompt", "system_prompt", "instructions", "system"), INSTRUCTION),
    **dict.fromkeys(("response_format", "output_type"), SCHEMA),
    "state_schema": STATE,
    **dict.fromkeys(("checkpointer", "store", "context_schema"), SAVER),
    **dict.fromkeys(("interrupt_before", "interrupt_on"), APPROVE),
    **dict.fromkeys(("handoffs", "subagents"), HANDOFF),
    **dict.fromkeys(("max_turns", "recursion_limit"), LIMITS),
    **dict.fromkeys(("llm", "temperature", "model_settings"), CONFIGURED),
    **dict.fromkeys(("role", "goal", "backstory"), "write them into instruction="),
    **dict.fromkeys(("pre_model_hook", "before_model_callback", "callbacks"), MIDDLEWARE),
}
OF_RUNS = {
    "session_id": "use thread_id=",
    "user_id": 'use thread_id=; a user belongs into config={"metadata": {"user_id": ...}}',
    "new_message": FIRST,
    "state": "use values=",
    "stream_mode": "use stream=True",
    "max_turns": LIMITS,
}
OF_INVOKE = {**OF_RUNS, "stream_mode": "use run(..., stream=True), which yields the events"}
OF_RUNNERS = {
    "saver": FILE,
    "db": FILE,
    "session_service": FILE,
    "app_name": 'leave it out; with checkpointer="runs.db" a file stores the threads',
}
OPTIONS: list[tuple[str, Callable[..., object], dict[str, str]]] = [
    ("chat_agent", lambda **wrong: of.chat_agent("a", MODEL, **wrong), CHAT_OPTIONS),
    ("ChatAgent", lambda **wrong: of.ChatAgent(name="a", model=MODEL, **wrong), CHAT_OPTIONS),
    ("sequential", lambda **wrong: of.sequential("s", **wrong), {"agents": "use sub_agents="}),
    ("loop", lambda **wrong: of.loop("l", **wrong), {"agents": "use sub_agents="}),
    (
        "parallel",
        lambda **wrong: of.parallel("p", [A], **wrong),
        {
            "agents": "use sub_agents=",
            "state_schema": STATE,
            "checkpointer": SAVER,
            "max_turns": LIMITS,
        },
    ),
    (
        "supervisor",
        lambda **wrong: of.supervisor("s", MODEL, **wrong),
        {"agents": "pass them as the third argument, workers", "prompt": INSTRUCTION},
    ),
    (
        "swarm",
        lambda **wrong: of.swarm("s", [A], **wrong),
        {"default_active_agent": 'use start="name"'},
    ),
    (
        "Limits",
        of.Limits,
        {
            "max_tokens": "use tokens=",
            "max_turns": "use model_calls=",
            "max_cost": "use cost=, and prices= of the Runner",
        },
    ),
    ("switch", lambda **wrong: of.switch("s", "v", {1: A}, **wrong), {"default": "use otherwise="}),
    (
        "each",
        lambda **wrong: of.each("e", A, **wrong),
        {
            "items": "pass them as the third argument, over",
            "return_exceptions": 'use on_error="collect"',
        },
    ),
    (
        "human",
        lambda **wrong: of.human("h", **wrong),
        {
            "question": "pass it as the second argument, prompt",
            "message": "pass it as the second argument, prompt",
            "schema": "use response_schema=",
        },
    ),
    ("Ask", lambda **wrong: of.Ask("Well?", **wrong), {"schema": "use response_schema="}),
    ("TransferTo", of.TransferTo, {"agent": 'pass the name: ag.TransferTo("writer")'}),
    ("Runner", lambda **wrong: of.Runner(A, **wrong), OF_RUNNERS),
    ("Runner.run", lambda **wrong: RUNNER.run("Go.", **wrong), OF_RUNS),
    ("Runner.run", lambda **wrong: RUNNER.query("Go.", **wrong), OF_RUNS),
    ("Runner.arun", lambda **wrong: RUNNER.arun("Go.", **wrong), OF_RUNS),
    ("Runner.invoke", lambda **wrong: RUNNER.invoke("Go.", **wrong), OF_INVOKE),
    ("Runner.ainvoke", lambda **wrong: asyncio.run(RUNNER.ainvoke("Go.", **wrong)), OF_INVOKE),
    (
        "Runner.resume",
        lambda **wrong: RUNNER.resume("t", **wrong),
        {"answer": "pass it as the second argument, answers"},
    ),
]
ROWS = [(name, call, option, hint) for name, call, hints in OPTIONS for option, hint in hints.items()]

MANY, LACKS = "too many positional arguments", "missing a required argument"
IN_A_LIST = 'write ag.sequential("s", [a, b])'
LOOP = 'write ag.loop("l", [a], max_iterations=...)'
CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: of.sequential("s", A, B), f"sequential(): {MANY}; {IN_A_LIST}"),
    (lambda: of.sequential([A, B]), f"sequential(): {LACKS}: 'sub_agents'; {IN_A_LIST}"),
    (lambda: of.LoopAgent("l", [A]), f"LoopAgent(): {MANY}; {LOOP}"),
    (lambda: of.Exit("text"), f"Exit(): {MANY}; yield the text, then ag.Exit()"),
    (lambda: of.SetValues({"a": 1}), f"SetValues(): {MANY}; write ag.SetValues(a=1)"),
    (
        lambda: of.chat_agent("openai:gpt-5", tools=[]),
        f"chat_agent(): {LACKS}: 'model'; write ag.chat_agent(\"name\", model, tools=[...])",
    ),
    (
        lambda: RUNNER.delete(),
        f"Runner.delete(): {LACKS}: 'thread_id'; write Runner.delete(thread_id)",
    ),
]


@pytest.mark.parametrize(
    ("name", "call", "option", "hint"), ROWS, ids=[f"{name}-{option}" for name, _, option, _ in ROWS]
)
def test_an_option_of_another_library_is_answered_by_what_to_write(
    name: str, call: Callable[..., object], option: str, hint: str
) -> None:
    with pytest.raises(TypeError) as caught:
        call(**{option: "?"})
    assert str(caught.value) == f"{name}() has no option {option!r}; {hint}"


@pytest.mark.parametrize(("call", "text"), CALLS)
def test_a_call_of_another_form_is_answered_by_what_to_write(
    call: Callable[[], object], text: str
) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == text


def test_several_wrong_options_are_answered_at_once() -> None:
    with pytest.raises(TypeError) as caught:
        of.chat_agent("a", MODEL, role="A cook", prompt="Cook!", goal="A meal")
    assert str(caught.value) == (
        "chat_agent() has no options 'role', 'prompt', 'goal'; 'role', 'goal': write them into "
        "instruction=; 'prompt': use instruction="
    )


def test_without_a_hint_the_options_are_listed_the_nearest_first() -> None:
    listed = "available: name, sub_agents, description, max_iterations, until, limits"
    with pytest.raises(TypeError) as caught:
        of.loop("l", [A], max_iteration=3)
    assert str(caught.value) == (
        f"loop() has no option 'max_iteration'; did you mean max_iterations=? {listed}"
    )
    with pytest.raises(TypeError) as caught:
        of.loop("l", [A], max_iterations=3, colour="red")
    assert str(caught.value) == f"loop() has no option 'colour'; {listed}"


def test_the_traceback_leads_from_the_line_of_the_user_to_the_hint_alone() -> None:
    with pytest.raises(TypeError) as caught:
        of.chat_agent("a", MODEL, prompt="Be brief.")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames[1:]] == ["checked"]
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)


def test_a_type_error_inside_what_is_called_is_left_alone() -> None:
    @hints_options
    def built(name: str) -> object:
        return of.loop(name, [A], max_iterations=1) if name == "right" else len(3)  # type: ignore[arg-type]

    def fails(ctx: ag.Context) -> str:
        return built("wrong") and "never"

    for call in (lambda: built("wrong"), lambda: ag.Runner(ag.agent(fails)).invoke("Go.")):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == "object of type 'int' has no len()"
    assert built("right") == ag.loop("right", [A], max_iterations=1)


def hints_or_error(called: Any) -> object:
    try:
        return typing.get_type_hints(called)
    except NameError as error:  # a type of LangChain's that is imported for type checkers alone
        return str(error)


@pytest.mark.parametrize(
    "called",
    [
        ag.chat_agent,
        ag.loop,
        ag.supervisor,
        ag.compile_agent,
        ag.Runner.run,
        ag.Runner.ainvoke,
        ag.agent,
    ],
)
def test_tools_that_inspect_see_the_function_itself(called: Any) -> None:
    inner = called.__wrapped__
    assert inspect.signature(called) == inspect.signature(inner)
    assert hints_or_error(called) == hints_or_error(inner)
    assert inspect.getsource(called) == inspect.getsource(inner)
    assert inspect.iscoroutinefunction(called) == inspect.iscoroutinefunction(inner)
    assert (called.__doc__, called.__module__, called.__qualname__) == (
        inner.__doc__,
        inner.__module__,
        inner.__qualname__,
    )


CHAT_AGENT = (
    "use ag.chat_agent(name, model, tools=[...]); a graph from create_agent(...) goes into "
    "ag.graph_agent(name, graph)"
)
EVENTS = "use run(...) or arun(...), stream=True adds chunks"
INVOKE = "use ag.Runner(agent).invoke(...), or ag.compile_agent(agent).invoke({...})"
FIRST_RUNNER = 'create a runner first: ag.Runner(agent).run("x")'


def seen_by(use: Callable[[Any], object]) -> object:
    """Return the result of a function of the context of an agent."""
    return ag.Runner(ag.agent(lambda ctx: ag.Custom(use(ctx)), name="f")).invoke("Go.")


def of_result(use: Callable[[Any], object]) -> object:
    return use(RUNNER.invoke("Go."))


def of_thread(use: Callable[[Any], object]) -> object:
    return use(RUNNER.thread(RUNNER.invoke("Go.").thread_id))


def of_event(use: Callable[[Any], object]) -> object:
    return use(RUNNER.invoke("Go.").events[0])


def of_run(use: Callable[[Any], object]) -> object:
    with RUNNER.run("Go.") as run:
        return use(run)


def of_reply(use: Callable[[Any], object]) -> object:
    return use(ag.Reply("Hi."))


def directly(owner: object) -> Callable[[Callable[[Any], object]], object]:
    return lambda use: use(owner)


NAMES: list[tuple[str, Callable[[Callable[[Any], object]], object], dict[str, str]]] = [
    (
        "agentgraph",
        directly(ag),
        {
            **dict.fromkeys(("LlmAgent", "create_react_agent", "create_agent"), CHAT_AGENT),
            "create_supervisor": "use ag.supervisor(name, model, workers)",
            "create_swarm": "use ag.swarm(name, agents, start=...)",
            "create_handoff_tool": "use ag.handoff(agent)",
            "interrupt": "return ag.Ask(value)",
            "Command": "use ag.TransferTo(name), ag.SetValues(...)",
            "Send": "use ag.each(...)",
        },
    ),
    (
        "Runner",
        directly(RUNNER),
        {
            **dict.fromkeys(("stream", "astream", "run_streamed"), EVENTS),
            "run_async": "use arun(...), or ainvoke(...)",
            **dict.fromkeys(("run_sync", "kickoff"), "use invoke(...)"),
            "get_state": "use thread(id)",
            "get_state_history": "use visits(id)",
            "update_state": "use rewind(id, address, values=...)",
            "get_graph": "use graph.get_graph()",
            "cancel": "use stop(id)",
            "usage": "use thread(id).usage, or invoke(...).usage",
            "delete_thread": "use delete(id)",
        },
    ),
    ("Runner", directly(ag.Runner), {"run_sync": "use invoke(...)", "run_streamed": EVENTS}),
    (
        "FunctionAgent",
        directly(A),
        {"invoke": INVOKE, "run": INVOKE, "as_tool": "use ag.agent_tool(agent)"},
    ),
    ("LoopAgent", directly(ag.loop("l", [A], max_iterations=1)), {"invoke": INVOKE}),
    (
        "Result",
        of_result,
        {
            "final_output": "use text or output",
            "content": "use text",
            "messages": "use runner.thread(result.thread_id).messages",
            "interrupts": "use pending",
            "state": "use values",
            "new_items": "use events",
        },
    ),
    (
        "Thread",
        of_thread,
        {
            "next": "use status and pending",
            "interrupts": "use pending",
            "cost": "use spent.cost, with prices= of the Runner",
            "created_at": "use runner.threads(), which lists the times",
        },
    ),
    ("Run", of_run, {"text": "use invoke(...).text, or read the events of the run"}),
    (
        "AgentEvent",
        of_event,
        {
            "content": "use text or message",
            "author": "use agent_name",
            "actions": "use action",
            "type": "use kind",
            "is_final_response": "the last text is invoke(...).text",
        },
    ),
    (
        "Context",
        seen_by,
        {
            "state": "use ctx.values",
            "session": "use ctx.values",
            "input": "use ctx.messages[-1].text",
            "thread_id": 'use ctx.config["configurable"]["thread_id"]',
            "interrupt": "return ag.Ask(value)",
        },
    ),
    ("Reply", of_reply, {"text": "the reply is the text itself; its data is in data"}),
]
NAME_ROWS = [(where, use, name, hint) for where, use, hints in NAMES for name, hint in hints.items()]


@pytest.mark.parametrize(
    ("where", "use", "name", "hint"),
    NAME_ROWS,
    ids=[f"{where}.{name}" for where, _, name, _ in NAME_ROWS],
)
def test_a_name_of_another_library_is_answered_by_what_to_write(
    where: str, use: Callable[[Callable[[Any], object]], object], name: str, hint: str
) -> None:
    with pytest.raises(AttributeError) as caught:
        use(lambda owner: getattr(owner, name))
    assert str(caught.value) == f"{where} has no attribute {name!r}; {hint}"


MISUSES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (
        lambda: of.Runner.run(A, "x"),
        AttributeError,
        f"FunctionAgent has no attribute 'engine'; {FIRST_RUNNER}",
    ),
    (
        lambda: asyncio.run(of.Runner.ainvoke(ag.chat_agent("c", MODEL), "x")),
        AttributeError,
        f"ChatAgent has no attribute 'engine'; {FIRST_RUNNER}",
    ),
    (
        lambda: RUNNER.invoke("Go.")["messages"],
        TypeError,
        "Result has no key 'messages'; use runner.thread(result.thread_id).messages",
    ),
    (
        lambda: RUNNER.invoke("Go.")["topic"],
        TypeError,
        "Result has no key 'topic'; use values['topic']",
    ),
    (
        lambda: seen_by(lambda ctx: ctx["messages"]),
        TypeError,
        "Context has no key 'messages'; use ctx.messages",
    ),
    (
        lambda: seen_by(lambda ctx: ctx["topic"]),
        TypeError,
        "Context has no key 'topic'; use ctx.values['topic']",
    ),
    (
        lambda: asyncio.run(awaited(RUNNER.run("Go."))),
        TypeError,
        "a Run cannot be awaited; use arun(...), or await ainvoke(...)",
    ),
    (
        lambda: [*RUNNER.arun("Go.")],
        TypeError,
        "an AsyncRun is not iterable; use async for, or run(...)",
    ),
]


async def awaited(thing: Any) -> object:
    return await thing


@pytest.mark.parametrize(("call", "kind", "text"), MISUSES)
def test_what_another_library_allows_is_answered_by_what_to_write(
    call: Callable[[], object], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert (type(caught.value), str(caught.value)) == (kind, text)


def test_an_import_of_another_librarys_name_is_answered_by_what_to_write() -> None:
    with pytest.raises(ImportError) as caught:
        exec("from agentgraph import Runner, create_supervisor")
    assert str(caught.value) == (
        "cannot import name 'create_supervisor' from 'agentgraph'; use ag.supervisor(name, model, "
        "workers)"
    )
    with pytest.raises(ImportError, match=r"^cannot import name 'Runer' from 'agentgraph' \("):
        exec("from agentgraph import Runer")


@pytest.mark.parametrize(
    ("owner", "where"),
    [
        (RUNNER, "'Runner' object"),
        (A, "'FunctionAgent' object"),
        (of_result(lambda result: result), "'Result' object"),
        (of_event(lambda event: event), "'AgentEvent' object"),
        (ag, "module 'agentgraph'"),
    ],
)
def test_other_missing_names_fail_as_those_of_any_object(owner: Any, where: str) -> None:
    for name in ("__deepcopy__", "_private", "sttop"):
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        error = caught.value
        assert (str(error), error.name) == (f"{where} has no attribute {name!r}", name)
        assert error.obj is owner  # from which Python takes what it was meant to be
    assert not hasattr(owner, "content_type")


def test_a_property_that_raises_is_not_taken_for_a_missing_one() -> None:
    event = of.AgentEvent(agent_name="a", run_path=(), address="a", id="1", output="no output")
    with pytest.raises(AttributeError, match=r"^'str' object has no attribute 'message'$"):
        event.text  # noqa: B018


def test_objects_with_hints_are_copied_and_pickled_as_others() -> None:
    result: Any = of_result(lambda result: result)
    thread = RUNNER.thread(result.thread_id)
    for thing in (A, result, thread, result.events[0], ag.Limits(tokens=3), ag.Reply("Hi.", data=1)):
        assert copy.copy(thing) == thing
    for thing in (result, result.events[0], ag.SetValues(a=1), ag.Ask("Well?")):
        assert copy.deepcopy(thing) == thing
        assert pickle.loads(pickle.dumps(thing)) == thing
    assert not isinstance(result, Iterable)
    with pytest.raises(TypeError, match="'Result' object is not iterable"):
        iter(result)


def test_a_class_of_users_may_be_a_runner_and_abstract() -> None:
    class Mine(ag.Runner, ABC):
        """A runner of a user's."""

    missing: Any = Mine
    for owner in (missing, missing(A)):
        with pytest.raises(AttributeError) as caught:
            owner.run_sync  # noqa: B018
        assert str(caught.value) == "Mine has no attribute 'run_sync'; use invoke(...)"
