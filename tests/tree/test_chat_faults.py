"""The faults of chat agents: their models, tools, approval and middleware."""

import re
from typing import Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ToolRetryMiddleware,
    before_model,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, tool
from walking import a, group, leaf

import agentgraph as ag
from agentgraph import agent_tool, chat_agent, loop, sequential
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.validation import validate


def model() -> ScriptedChatModel:
    return ScriptedChatModel(responses=[])


def titles(table: dict[str, Any]) -> list[str]:
    """Return the titles of a table as ids, which must be the same in every process."""
    return [re.sub(r" at 0x\w+", f" {number}", title) for number, title in enumerate(table)]


def faults(agent: Any) -> tuple[str, ...]:
    with pytest.raises(ag.InvalidAgentError) as refused:
        validate(agent)
    return refused.value.faults


def search(q: str) -> str:
    """Search."""
    return q


def stop(ctx: Any) -> str | ag.BreakLoop:
    """Stop."""
    return ag.BreakLoop()


def undocumented(q: str) -> str:
    return q


def named(name: str) -> StructuredTool:
    return StructuredTool.from_function(search, name=name)


async def later(given: Any) -> str:
    return "Later."


@tool
def look(topic: str) -> str:
    """Look something up."""
    return topic


class Bringing(AgentMiddleware[Any, Any, Any]):
    tools = (look,)


class Deaf(BaseChatModel):
    """A chat model that takes no tools."""

    @property
    def _llm_type(self) -> str:
        return "deaf"

    def _generate(self, *given: Any, **_: Any) -> Any:
        raise NotImplementedError


NO_MODEL = (
    "is not a LangChain chat model; pass one, such as ChatOpenAI(...), a name, such as 'openai:gpt-5', "
    "or a sync function of a context"
)
NO_INSTRUCTION = "cannot be used; pass a template, a SystemMessage, or a sync function of a context"
NO_ERROR_POLICY = (
    "is not known; use 'return' or 'raise', types of exceptions, a sentence for the model, or a sync "
    "function of the exception"
)
NO_HOOK = "cannot be used; pass a sync function of the messages, or of a context and the messages"
ONE_NAME = "a name means one tool, rename the others"
DECISIONS = "give it allowed_decisions, of approve, edit, reject, respond"
INTERRUPT_ON = "use True, False, or a mapping as LangChain's InterruptOnConfig"
APPROVED = {"allowed_decisions": ["approve"]}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two tools of one name": (
        {"tools": [search, tool(search)]},
        f"2 tools are named 'search'; {ONE_NAME}",
    ),
    "a tool and an agent of one name": (
        {"tools": [search, agent_tool(leaf("search"))]},
        f"2 tools are named 'search'; {ONE_NAME}",
    ),
    "three tools of one name": ({"tools": [search] * 3}, f"3 tools are named 'search'; {ONE_NAME}"),
    "a tool named as the exit tool": (
        {"tools": [named("exit")], "exit_tool": True},
        f"2 tools are named 'exit'; {ONE_NAME}",
    ),
    "a tool named as a transfer": (
        {"tools": [named("transfer_to_a")], "sub_agents": [a]},
        f"2 tools are named 'transfer_to_a'; {ONE_NAME}",
    ),
    "a tool named as one of middleware": (
        {"middleware": [Bringing()], "tools": [look]},
        f"2 tools are named 'look'; {ONE_NAME}",
    ),
    "a function without a docstring as a tool": (
        {"tools": [undocumented]},
        f"{undocumented!r} cannot be used as a tool (Function must have a docstring if description not "
        "provided.); pass a LangChain tool, or a function with a docstring",
    ),
    "an agent as a tool without agent_tool": (
        {"tools": [a]},
        f"{a!r} cannot be used as a tool (an agent becomes a tool by agent_tool(agent)); pass a "
        "LangChain tool, or a function with a docstring",
    ),
    "a history of an agent tool": (
        {"tools": [agent_tool(a, history="own")]},
        "history of an agent_tool='own' is not known; use 'input' or 'shared'",
    ),
    "return_directly names unknown tools": (
        {"tools": [search], "return_directly": ["serch", "search", "find"]},
        "return_directly names 'serch', 'find', which is not one of its tools: search",
    ),
    "approve names a tool of an agent without tools": (
        {"approve": "search"},
        "approve names 'search', which is not one of its tools: none",
    ),
    "approve has a rule for an unknown tool": (
        {"tools": [look], "approve": {"mail": True}},
        "approve names 'mail', which is not one of its tools: look",
    ),
    "approve is async": (
        {"tools": [search], "approve": later},
        f"approve={later!r} is async; pass a sync function of a call",
    ),
    "an unknown interrupt_mode": (
        {"interrupt_mode": "both"},
        "interrupt_mode='both' is not known; use 'batched' or 'per_call'",
    ),
    "two ways to ask for approval": (
        {
            "middleware": [HumanInTheLoopMiddleware({"look": True})],
            "tools": [look],
            "approve": ["look"],
        },
        "it has both approve= and a HumanInTheLoopMiddleware, which would ask twice; leave one out",
    ),
    "an unknown on_max_iterations": (
        {"on_max_iterations": "ignore"},
        "on_max_iterations='ignore' is not known; use 'raise' or 'answer'",
    ),
    "an unknown_tool that is not a text": (
        {"unknown_tool": 5},
        "unknown_tool=5 is not known; use 'return' or 'raise'",
    ),
    "an unknown history in a budget": (
        {"history": ag.trimmed(5, history="all")},
        "unknown history 'all'; use one of shared, path, own, last, input, or a function",
    ),
    "a token counter that is no function": (
        {"history": ag.trimmed(5, token_counter=5)},
        "token_counter=5 cannot be called; pass a function of a list of messages, such as len",
    ),
    "an output schema that replies cannot be checked against": (
        {"output_schema": {"type": "string", "not": 5}},
        "the output schema {'type': 'string', 'not': 5} is neither a type nor a JSON schema (not: "
        "Input should be an object or a valid boolean)",
    ),
    "middleware that is a text": (
        {"middleware": ["no"]},
        "'no' is not a middleware; pass instances of LangChain's AgentMiddleware, or what its "
        "decorators such as wrap_model_call give",
    ),
    "middleware that is a class": (
        {"middleware": [ToolRetryMiddleware]},
        f"{ToolRetryMiddleware!r} is not a middleware (a class: call it); pass instances of "
        "LangChain's AgentMiddleware, or what its decorators such as wrap_model_call give",
    ),
    "the same middleware twice": (
        {"middleware": [ToolRetryMiddleware(), ToolRetryMiddleware()]},
        "two middlewares are named 'ToolRetryMiddleware'; leave one out, or give it a subclass or a "
        "`name` of its own",
    ),
}
REFUSED |= {
    f"on_tool_error={given!r}": ({"on_tool_error": given}, f"on_tool_error={given!r} {NO_ERROR_POLICY}")
    for given in ["ignore", "", None, True, str, KeyboardInterrupt, (), (ValueError, 5), later]
}
REFUSED |= {
    f"model_input={hook!r}": ({"model_input": hook}, f"model_input={hook!r} {NO_HOOK}")
    for hook in ["messages", 5, later, lambda: [], lambda a, b, c: []]
}
REFUSED |= {
    f"instruction={given!r}": ({"instruction": given}, f"the instruction {given!r} {NO_INSTRUCTION}")
    for given in [None, ["Write."], later, lambda a, b: "Write."]
}
REFUSED |= {
    f"the rule {rule!r}": (
        {"tools": [look], "approve": {"look": rule}},
        f"approve['look'] {fault}",
    )
    for rule, fault in [
        ("yes", f"is 'yes'; {INTERRUPT_ON}"),
        (None, f"is None; {INTERRUPT_ON}"),
        ({}, f"allows None; {DECISIONS}"),
        ({"allowed_decisions": []}, f"allows []; {DECISIONS}"),
        ({"allowed_decisions": ["accept"]}, f"allows ['accept']; {DECISIONS}"),
        (
            {"allowed_decision": ["approve"]},
            "has unknown keys 'allowed_decision'; use allowed_decisions, description, args_schema, "
            "when",
        ),
        ({**APPROVED, "when": "always"}, "has when='always'; pass a sync function of a request"),
        ({**APPROVED, "when": later}, f"has when={later!r}; pass a sync function of a request"),
        (
            {**APPROVED, "description": 5},
            "has description=5; pass a text, or a sync function of a call",
        ),
    ]
}


@pytest.mark.parametrize(("options", "fault"), REFUSED.values(), ids=titles(REFUSED))
def test_a_chat_agent_is_refused(options: dict[str, Any], fault: str) -> None:
    assert faults(chat_agent("x", model(), **options)) == (f"x: {fault}",)


@pytest.mark.parametrize("given", [None, " ", ScriptedChatModel, later, lambda: "openai:gpt-5"])
def test_a_model_is_refused(given: Any) -> None:
    assert faults(chat_agent("x", given)) == (f"x: the model {given!r} {NO_MODEL}",)


ALLOWED: dict[str, dict[str, Any]] = {
    "one tool": {"tools": search},
    "all kinds of tools": {
        "tools": [search, named("b"), agent_tool(leaf("c")), {"type": "web_search"}]
    },
    "tools named as those that steer, which it does not have": {
        "tools": [named("exit"), named("break_loop"), named("transfer_to_a"), named("transfer")]
    },
    "own tools that are named": {
        "tools": [search, agent_tool(leaf("b"))],
        "sub_agents": [a],
        "exit_tool": True,
        "approve": ["search", "exit", "transfer_to_a", "b"],
        "return_directly": ["search", "exit", "transfer_to_a", "b"],
    },
    "approve as a function": {"tools": [search], "approve": bool},
    "a tool of middleware that is named": {"middleware": [Bringing()], "approve": ["look"]},
    "answers for the last round and unknown tools": {
        "on_max_iterations": "answer",
        "unknown_tool": lambda name, args: name,
    },
    "an instruction as a message": {"instruction": SystemMessage("Write.")},
    "a hook on the context and the messages": {"model_input": lambda ctx, messages: messages},
    "a hook on the messages": {"model_input": lambda messages: messages},
    "a budget": {"history": ag.trimmed(5, history="own")},
}
ALLOWED |= {
    f"on_tool_error={given!r}": {"on_tool_error": given}
    for given in ["return", "raise", "Try again.", ValueError, (ValueError, KeyError), lambda error: ""]
}
ALLOWED |= {
    f"history={policy}": {"history": policy} for policy in ["shared", "path", "own", "last", "input"]
}
ALLOWED |= {
    f"output_schema={schema}": {"output_schema": schema}
    for schema in [int, dict[str, int], {"type": "object"}, None]
}
ALLOWED |= {
    f"the rule {rule}": {"tools": [look], "approve": {"look": rule}}
    for rule in [True, False, {**APPROVED, "description": str, "when": bool, "args_schema": {}}]
}


@pytest.mark.parametrize("options", ALLOWED.values(), ids=titles(ALLOWED))
def test_a_chat_agent_is_allowed(options: dict[str, Any]) -> None:
    agent = chat_agent("x", model(), **options)
    assert validate(agent).root.agent is agent


MODELS = {
    "a name": "openai:gpt-5",
    "a function": lambda ctx: "openai:gpt-5",
    "retries": model().with_retry(),
    "fallbacks": model().with_fallbacks([model()]),
    "a sequence": RunnableLambda(list) | model(),
}


@pytest.mark.parametrize("given", MODELS.values(), ids=MODELS)
def test_a_model_is_allowed(given: Any) -> None:
    validate(chat_agent("x", given))


USES_TOOLS: list[dict[str, Any]] = [{"tools": [search]}, {"exit_tool": True}, {"sub_agents": [a]}]
WITHOUT_TOOLS = {
    "Deaf": (Deaf(), "pass one with bind_tools"),
    "FakeListChatModel": (FakeListChatModel(responses=["a"]), "pass one with bind_tools"),
    "RunnableSequence": (RunnableLambda(list) | model(), "pass one with bind_tools"),
    "RunnableRetry": (model().with_retry(), "use retry= instead"),
}


@pytest.mark.parametrize("options", USES_TOOLS, ids=list)
@pytest.mark.parametrize("kind", WITHOUT_TOOLS)
def test_tools_need_a_model_that_takes_them(kind: str, options: dict[str, Any]) -> None:
    given, way_out = WITHOUT_TOOLS[kind]
    assert faults(chat_agent("x", given, **options)) == (
        f"x: the model {kind} takes no tools; {way_out}",
    )
    validate(chat_agent("x", given))


def test_fallbacks_take_tools_if_all_do() -> None:
    validate(chat_agent("x", model().with_fallbacks([model()]), tools=[search]))
    assert faults(chat_agent("x", model().with_fallbacks([Deaf()]), tools=[search])) == (
        "x: the model Deaf takes no tools; pass one with bind_tools",
    )


def test_an_agent_that_may_transfer_back_has_a_tool_for_it() -> None:
    validate(group("triage", chat_agent("bills", model(), approve=["transfer_to_triage"])))
    assert faults(group("triage", chat_agent("bills", Deaf()))) == (
        "triage/bills: the model Deaf takes no tools; pass one with bind_tools",
    )


def test_a_loop_without_bound_is_allowed_if_a_tool_may_end_it() -> None:
    for options in ({"exit_tool": True}, {"break_tool": True}, {"tools": [stop]}):
        validate(loop("refine", [a, chat_agent("x", model(), **options)], max_iterations=None))
    endless = loop("refine", [chat_agent("x", model(), tools=[search])], max_iterations=None)
    (fault,) = faults(endless)
    assert fault.startswith("refine: nothing can end this loop; ")


def test_all_faults_of_a_chat_agent_are_found() -> None:
    agent = chat_agent(
        "x",
        model(),
        tools=[search, tool(search), undocumented],
        max_iterations=0,
        on_tool_error="ignore",
        return_directly=["find"],
        break_tool=True,
        output_key="a b",
        history="all",
    )
    found = faults(sequential("s", [agent]))
    assert len(found) == 8
    assert all(fault.startswith("s/x: ") for fault in found)


def test_an_async_hook_needs_an_async_run() -> None:
    @before_model
    async def wait(state: Any, runtime: Any) -> None:
        return None

    runner = ag.Runner(chat_agent("writer", model(), middleware=[wait]))
    fault = "writer: the middleware 'wait' has abefore_model, but no before_model"
    with pytest.raises(ag.AgentGraphError, match=fault):
        list(runner.query("Go."))


def test_a_tool_of_middleware_may_need_approval_and_end_the_agent() -> None:
    agent = chat_agent(
        "writer", model(), middleware=[Bringing()], approve=["look"], return_directly=["look"]
    )
    edges = {(e.source, e.target) for e in ag.compile_agent(agent).get_graph().edges}
    assert {("writer", "writer.approve"), ("writer.tools", "__end__")} <= edges
