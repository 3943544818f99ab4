"""A chat agent with LangChain's middleware asks and says what `create_agent` does."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from beside_langchain import run_graph, run_tree
from helpers import Counting, Drive, Selecting, look, mail, middleware, passes, scripted, shapes
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ContextEditingMiddleware,
    ExtendedModelResponse,
    HumanInTheLoopMiddleware,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelResponse,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
    dynamic_prompt,
)
from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

pytestmark = pytest.mark.by_turns("drive")


def flaky(failures: int) -> Any:
    """Return a tool that fails some times."""
    left = [OSError(f"no line {number}") for number in range(failures)]

    @tool("mail")
    def flaky_mail(to: str) -> str:
        """Send a mail."""
        if left:
            raise left.pop()
        return f"sent to {to}"

    return flaky_mail


class Stack(NamedTuple):
    """What is made anew for each run: a script of the model, middleware, and what is given."""

    script: Any
    middleware: Any = ()
    tools: Any = (look, mail)
    turns: tuple[str, ...] = ("Go.",)
    answer: Any = None
    system: str = ""


def loud(request: Any) -> Any:
    [reply] = (yield request).result
    return ModelResponse(result=[reply.model_copy(update={"content": reply.text.upper()})])


def refuses_calls(request: Any) -> Any:
    [reply] = (yield request).result
    results = [ToolMessage("refused", tool_call_id=c["id"], name=c["name"]) for c in reply.tool_calls]
    return ModelResponse(result=[reply, *results])


def adds(request: Any) -> Any:
    update = {"messages": [AIMessage("And that is all.")]}
    return ExtendedModelResponse(model_response=(yield request), command=Command(update=update))


def answers_later(request: Any) -> Any:
    return AIMessage("Enough.") if len(request.messages) > 2 else (yield request)


def caches(request: Any) -> Any:
    return ToolMessage("cached", tool_call_id=request.tool_call["id"], name="look")


def edits(request: Any) -> Any:
    made = {**request.tool_call, "args": {"topic": "wasps"}}
    return (yield request.override(tool_call=made, tool=tool(look)))


def replaced(message: Any, text: str) -> Any:
    return {"messages": [message.model_copy(update={"content": text})]}


def greets() -> list[Any]:
    """Return middleware that asks before the agent begins, and gives all messages back as they are."""
    return [
        middleware(
            before_agent=lambda state: {
                "messages": [*state["messages"], AIMessage(f"Hello {interrupt('Who?')}.")]
            },
            before_model=lambda state: {"messages": list(state["messages"])},
        )
    ]


def jumps_to_the_end() -> list[Any]:
    """Return middleware that ends before the second call of the model, and adds a word at the end."""
    return [
        middleware(
            jumps=["end"],
            before_model=lambda state: (
                {"jump_to": "end", "messages": [AIMessage("Stopped.")]}
                if len(state["messages"]) > 2
                else None
            ),
            after_agent=lambda state: {"messages": [AIMessage(f"After {len(state['messages'])}.")]},
        )
    ]


def jumps_to_the_model() -> list[Any]:
    """Return middleware that asks the model again until it says something long."""
    is_short = lambda state: len(state["messages"][-1].text) < 6  # noqa: E731
    return [
        middleware(jumps=["model"], after_model=lambda s: {"jump_to": "model"} if is_short(s) else None)
    ]


def counts() -> Any:
    """Return middleware that counts the rounds of all turns, and says the count."""
    return middleware(
        state=Counting,
        before_agent=lambda state: {"rounds": state.get("rounds", 0) + 100},
        before_model=lambda state: {"rounds": state.get("rounds", 0) + 1},
        after_agent=lambda state: {"messages": [AIMessage(f"{state['rounds']} rounds.")]},
    )


def asks() -> list[Any]:
    return [HumanInTheLoopMiddleware({"mail": True})]


def decides(kind: str, **more: Any) -> Callable[[Any], Any]:
    return lambda question: {"decisions": [{"type": kind, **more}]}


def several() -> list[Any]:
    return [
        TodoListMiddleware(),
        PIIMiddleware("email"),
        ModelCallLimitMiddleware(run_limit=5),
        ToolRetryMiddleware(initial_delay=0),
        *asks(),
        counts(),
    ]


DOWN = OSError("no line")
ONE, OTHER = calls(call("look", topic="bees")), calls(call("look", "2", topic="wasps"))
TWO = calls(call("look", "1", topic="a"), call("mail", "2", to="b"))
TODO = calls(call("write_todos", todos=[{"content": "Look.", "status": "pending"}]))
EDITED = {"edited_action": {"name": "mail", "args": {"to": "c"}}}
CLEARS = ClearToolUsesEdit(trigger=1, keep=1)

STACKS: dict[str, Callable[[], Stack]] = {
    "no middleware": lambda: Stack([ONE, "Done."], system="Be brief."),
    "wraps that change nothing": lambda: Stack(
        [TWO, "Done."], [middleware(wrap_model_call=passes, wrap_tool_call=passes)], system="Be brief."
    ),
    "a reply is changed": lambda: Stack(["Done."], [middleware(wrap_model_call=loud)]),
    "a dynamic prompt": lambda: Stack(
        [ONE, lambda sent: f"{sent[0].text} {len(sent)}"],
        [dynamic_prompt(lambda request: f"At {len(request.messages)}.")],
        system="Be brief.",
    ),
    "a model is tried again": lambda: Stack(
        [DOWN, ONE, DOWN, "Done."], [ModelRetryMiddleware(max_retries=2, initial_delay=0)]
    ),
    "another model in its place": lambda: Stack(
        [DOWN, DOWN], [ModelFallbackMiddleware(scripted(ONE, "Done."))], system="Be brief."
    ),
    "a tool is tried again": lambda: Stack(
        [TWO, "Done."], [ToolRetryMiddleware(max_retries=2, initial_delay=0)], [look, flaky(2)]
    ),
    "a tool is tried again in vain": lambda: Stack(
        [TWO, "Done."], [ToolRetryMiddleware(max_retries=2, initial_delay=0)], [look, flaky(5)]
    ),
    "tools are emulated": lambda: Stack([ONE, "Done."], [LLMToolEmulator(model=scripted("emulated"))]),
    "old results are cleared": lambda: Stack(
        [ONE, OTHER, lambda sent: sent[2].text], [ContextEditingMiddleware(edits=[CLEARS])]
    ),
    "tools are selected": lambda: Stack(
        [ONE, "Done."], [LLMToolSelectorMiddleware(model=Selecting(responses=["x"] * 3))]
    ),
    "the model and a tool are not asked": lambda: Stack(
        [ONE], [middleware(wrap_model_call=answers_later, wrap_tool_call=caches)]
    ),
    "calls are answered beside the reply": lambda: Stack(
        [ONE, ONE, "Done."], [middleware(wrap_model_call=refuses_calls)]
    ),
    "a command beside the reply": lambda: Stack(["Done."], [middleware(wrap_model_call=adds)]),
    "calls are changed": lambda: Stack([TWO, "Done."], [middleware(wrap_tool_call=edits)]),
    "a tool of middleware": lambda: Stack([ONE, "Done."], [middleware(tools=[look])], []),
    "a tool that a wrap brings": lambda: Stack([ONE, "Done."], [middleware(wrap_tool_call=edits)], []),
    "a jump to the end": lambda: Stack([ONE, "Done."], jumps_to_the_end()),
    "a jump to the model": lambda: Stack(["No.", "Short", "Long enough."], jumps_to_the_model()),
    "state of its own": lambda: Stack([ONE, "a", "b"], [counts()], turns=("Go.", "On.")),
    "a reply is replaced": lambda: Stack(
        [ONE, "done"],
        [middleware(after_model=lambda s: replaced(s["messages"][-1], s["messages"][-1].text.upper()))],
    ),
    "a question before the agent": lambda: Stack([ONE, "Done."], greets(), answer=lambda _: "Ada"),
    "a limit of replies": lambda: Stack([ONE, ONE, "x"], [ModelCallLimitMiddleware(run_limit=1)]),
    "a limit of calls": lambda: Stack([TWO, ONE, "x"], [ToolCallLimitMiddleware(run_limit=1)]),
    "a limit for the thread": lambda: Stack(
        ["a", "b"], [ModelCallLimitMiddleware(thread_limit=1)], turns=("Go.", "On.")
    ),
    "a to-do list": lambda: Stack([TODO, ONE, "x"], [TodoListMiddleware()]),
    "redaction": lambda: Stack(
        lambda sent: sent[-1].text,
        [PIIMiddleware("email", apply_to_output=True)],
        turns=("Write to a@b.com.", "And to c@d.com."),
    ),
    "a call is edited": lambda: Stack([TWO, "x"], asks(), answer=decides("edit", **EDITED)),
    "a call is rejected": lambda: Stack([TWO, "x"], asks(), answer=decides("reject", message="no")),
    "several at once": lambda: Stack(
        [TODO, TWO, "x"], several(), turns=("Write to a@b.com.",), answer=decides("approve")
    ),
}


def ours(drive: Drive, model: Any, stack: Stack) -> list[Any]:
    agent = ag.chat_agent(
        "writer", model, tools=stack.tools, middleware=stack.middleware, instruction=stack.system
    )
    return run_tree(drive, ag.sequential("s", [agent]), stack.turns, stack.answer)


def theirs(drive: Drive, model: Any, stack: Stack) -> list[Any]:
    graph = create_agent(
        model,
        list(stack.tools),
        middleware=list(stack.middleware),
        system_prompt=stack.system or None,
        checkpointer=InMemorySaver(),
    )
    return run_graph(drive, graph, stack.turns, stack.answer)


@pytest.mark.parametrize("stack", STACKS.values(), ids=list(STACKS))
def test_an_agent_asks_and_says_what_create_agent_does(
    drive: Drive, stack: Callable[[], Stack]
) -> None:
    found = []
    for run in (ours, theirs):
        made = stack()
        found.append(run(drive, ScriptedChatModel(responses=made.script), made))
    assert found[0] == found[1]


def test_wraps_see_what_they_see_in_create_agent(drive: Drive) -> None:
    def seen(run: Callable[..., Any]) -> list[str]:
        log: list[str] = []

        def noting(name: str) -> Any:
            def note_model(request: Any) -> Any:
                tools, model = [each.name for each in request.tools], type(request.model).__name__
                log.append(f"{name}: {request.system_prompt} {model} {tools} {texts(request)}")
                return (yield request)

            def note_tool(request: Any) -> Any:
                log.append(f"{name}: {request.tool_call} {request.tool.name} {texts(request)}")
                return (yield request)

            return middleware(name, wrap_model_call=note_model, wrap_tool_call=note_tool)

        def texts(request: Any) -> list[str]:
            return [each.text for each in request.state["messages"]]

        stack = Stack([ONE, "Done."], [noting("Outer"), noting("Inner")], [look], system="Be brief.")
        run(drive, ScriptedChatModel(responses=stack.script), stack)
        return log

    assert seen(ours) == seen(theirs)
    assert seen(ours)[:2] == [
        "Outer: Be brief. ScriptedChatModel ['look'] ['Go.']",
        "Inner: Be brief. ScriptedChatModel ['look'] ['Go.']",
    ]


def test_the_model_sees_the_summary_of_create_agent_and_the_history_keeps_everything(
    drive: Drive,
) -> None:
    sent: list[Any] = []
    said: list[Any] = []
    for run in (ours, theirs):
        model = scripted(ONE, "a", calls(call("look", "2", topic="b")), "b", "c")
        summing = ScriptedChatModel(responses=lambda asked: "Sum.")
        middleware = SummarizationMiddleware(summing, trigger=("messages", 4), keep=("messages", 2))
        stack = Stack([], [middleware], [look], turns=("Go.", "On.", "And?"))
        said.append([each[1] for each in run(drive, model, stack)[-1]])
        sent.append([shapes(each) for each in model.inputs])
    assert sent[0] == sent[1]
    assert all("Sum." in each[0][1] for each in sent[0][2:])
    assert said[0] == ["Go.", "", "bees!", "a", "On.", "", "b!", "b", "And?", "c"]


def test_hooks_are_nodes_and_only_what_can_happen_is_drawn() -> None:
    ends = middleware("Ends", jumps=["end"], before_model=lambda state: None)
    again = middleware("Again", jumps=["model"], after_model=lambda state: None)
    last = middleware("Last", after_agent=lambda state: None)
    agent = ag.chat_agent("writer", scripted(), tools=[look], middleware=[ends, again, last])
    graph = ag.compile_agent(ag.sequential("s", [agent, ag.function_agent("last", lambda ctx: "x")]))
    edges = {(e.source, e.target) for e in graph.get_graph().edges if e.source.startswith("writer")}
    assert edges == {
        ("writer.Ends.before_model", "writer"),
        ("writer.Ends.before_model", "writer.Last.after_agent"),
        ("writer", "writer.Again.after_model"),
        ("writer.Again.after_model", "writer.tools"),
        ("writer.Again.after_model", "writer.Last.after_agent"),
        ("writer.Again.after_model", "writer.Ends.before_model"),
        ("writer.tools", "writer.Ends.before_model"),
        ("writer.tools", "writer.Last.after_agent"),
        ("writer.Last.after_agent", "last"),
    }
