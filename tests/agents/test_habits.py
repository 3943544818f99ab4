"""What newcomers type out of habit is answered by an error that says what to write instead."""

import asyncio
import inspect
import traceback
import typing
from collections.abc import Callable
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
    ("Limits", of.Limits, {"max_tokens": "use tokens=", "max_turns": "use model_calls="}),
    ("switch", lambda **wrong: of.switch("s", "v", {1: A}, **wrong), {"default": "use otherwise="}),
    (
        "each",
        lambda **wrong: of.each("e", A, **wrong),
        {"items": "pass them as the third argument, over"},
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
    ("Runner.invoke", lambda **wrong: RUNNER.invoke("Go.", **wrong), OF_RUNS),
    ("Runner.ainvoke", lambda **wrong: asyncio.run(RUNNER.ainvoke("Go.", **wrong)), OF_RUNS),
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
