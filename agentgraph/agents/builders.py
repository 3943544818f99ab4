"""The builders of leaves: what users call; nothing is checked before the tree is compiled."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, overload

from langchain_core.messages import ToolCall

from agentgraph.agents.agents import (
    Agent,
    AgentFunction,
    AgentTool,
    ChatAgent,
    FunctionAgent,
    Graph,
    GraphAgent,
    HistoryPolicy,
    HumanAgent,
    Instruction,
    Model,
    ModelInput,
    OnToolError,
    OutputSchema,
    Retry,
    Seconds,
    Timeout,
    Tool,
)
from agentgraph.agents.composites import as_tuple
from agentgraph.agents.context import Context


def chat_agent(
    name: str,
    model: Model,
    *,
    description: str = "",
    instruction: Instruction = "",
    tools: Iterable[Tool] = (),
    sub_agents: Iterable["Agent"] = (),
    sub_agents_return: bool = False,
    output_key: str | None = None,
    output_schema: "OutputSchema | None" = None,
    history: HistoryPolicy = "shared",
    max_iterations: int | None = 20,
    on_max_iterations: Literal["raise", "answer"] = "raise",
    return_directly: Iterable[str] = (),
    exit_tool: bool = False,
    break_tool: bool = False,
    approve: Iterable[str] | Callable[[ToolCall], bool] | Mapping[str, Any] = (),
    interrupt_mode: Literal["batched", "per_call"] = "batched",
    parallel_tools: bool = True,
    on_tool_error: OnToolError = "return",
    tool_timeout: Seconds | Mapping[str, Seconds] | None = None,
    unknown_tool: Literal["return", "raise"] | Callable[[str, dict[str, Any]], Any] = "return",
    retry: Retry = None,
    timeout: Timeout = None,
    model_input: ModelInput | None = None,
    middleware: Iterable[Any] = (),
) -> ChatAgent:
    """Make an agent that asks a chat model, and runs the tools that it calls until it calls none.

    A tool gives its result as LangChain's tools do, `Command(update={"messages": [...], "values":
    {...}})` included, or returns `SetValues(...)`, `Custom(...)`, `Exit()`, `BreakLoop()`,
    `TransferTo(name)`, or a list of these and of `ToolMessage`s. What it may do is drawn as its
    return annotation says it, as with `function_agent`. A tool may call LangGraph's `interrupt()`.

    >>> from agentgraph.testing import ScriptedChatModel, call, calls, transcript
    >>> def search(topic: str) -> str:
    ...     "Searches the library."
    ...     return f"3 books about {topic}"
    >>> model = ScriptedChatModel(responses=[calls(call("search", topic="bees")), "There are 3."])
    >>> chat = chat_agent("librarian", model, instruction="You help {reader}.", tools=[search])
    >>> for line in transcript(Runner(chat).query("Bees?", values={"reader": "Ada"})):
    ...     print(line)
    librarian: [calls] search({"topic": "bees"})
    librarian: 3 books about bees
    librarian: There are 3.

    A run raises `MissingValueError` where the instruction names a value that there is not,
    `MaxIterationsError`, and `InvalidOutputError` where no reply fits `output_schema`, or where the
    model, a tool, `model_input` or a function for the model or the instruction gives what it may not.

    Args:
        name: The agent's name: letters, digits, `_` and `-`; a name means one agent in a tree.
        model: A LangChain chat model, or a runnable around one: `with_fallbacks`, or where there are
            no tools `with_retry`; `retry` serves in both cases. What was bound to it stays bound. Or a
            name, such as "openai:gpt-5", of which LangChain's `init_chat_model` makes the model when
            it is first asked. Or a function of a `Context`, called for each step, that gives either.
        description: What the agent is for, in a sentence that other agents read.
        instruction: The system message, a template: `{topic}` is filled from the values of the
            run, `{topic?}` with nothing where there is none, as in google-adk; `{{` and `}}` are
            braces, and any other text in braces stays as it is. Or a `SystemMessage`, which is sent as
            it is (transfers are told in a further block). Or a function of a `Context`, called for
            each step, that gives either.
        tools: LangChain tools, functions, agents (`agent_tool`), or dicts that describe tools
            which the model's provider runs.
        sub_agents: Agents that it may transfer to, as in google-adk, by the tools
            `transfer_to_<name>`. A chat agent among them may transfer back; one that ends without a
            transfer ends this agent too.
        sub_agents_return: Whether a sub-agent that ends hands back by itself instead: then it is this
            agent's turn again, and sub-agents have no tool to transfer back.
        output_key: The value that the text of the last message becomes; with `output_schema`
            the answer, as plain data.
        output_schema: What the answer must fit, LangChain's `response_format`: a type that pydantic
            knows, a JSON schema, a `ProviderStrategy` or a `ToolStrategy`. A model whose profile says
            so has its provider keep to it; any other answers by calling a tool that LangChain makes
            of it; where the model takes no tools, or the schema is not that of an object, the
            instruction tells it. A reply that does not fit goes back, twice at most, calls as
            `handle_errors` of the strategy says. Others see the answer as JSON.
        history: Which messages the model is sent: "shared" (all), "path" (those on the way to
            this agent), "own", "last" (the user's input and the last answer), "input" (the
            user's input), a function from entries to messages, `trimmed(...)` or `summarized(...)`.
        max_iterations: How often the model may be asked in one activation, from 1; None for no
            bound.
        on_max_iterations: What happens then: "raise" `MaxIterationsError`, or "answer", which asks
            once more without tools.
        return_directly: Names of tools whose result ends the agent; of several, the last one's.
        exit_tool: Whether the model may end the run, with the tool `exit(final_result)`.
        break_tool: Whether it may end the nearest loop, with the tool `break_loop(final_result)`.
        approve: Names of tools whose calls a person must approve, edit, reject or respond to; a
            function that says it of a call (`{"name": ..., "args": ..., "id": ...}`) and is asked once;
            or the `interrupt_on` of LangChain's human in the loop, `{"mail": True, "pay":
            {"allowed_decisions": ["approve", "reject"], "description": "..."}}`.
        interrupt_mode: "batched" asks one question for each message, before any of its calls runs: an
            action request for each call that needs approval. An answer has a decision for each, in
            order: `{"decisions": [{"type": "approve"}]}`, or "edit" and an `edited_action`, "reject" or
            "respond" and a `message`. "per_call" asks for each call as it starts, beside those that
            need no approval; an answer is one decision. Both as LangChain has them.
        parallel_tools: Whether the calls of one message run at the same time, or in their order.
        on_tool_error: "return" tells the model of an exception in a tool, "raise" fails the agent; or
            as LangGraph's `ToolNode` has it: one or several types of exceptions, which the model is
            told of, a sentence that it is told, or a function that is given the exception and returns
            what it is told (only of the types that its parameter is annotated with). Arguments that
            do not fit always go back to the model.
        tool_timeout: How long a call of an async tool may take, in seconds or as a timedelta: one for
            all of them, or by their names; longer is a `TimeoutError` of the tool. For retries and
            limits of single tools use `tool.with_retry()`, or LangChain's `ToolRetryMiddleware` and
            `ToolCallLimitMiddleware`.
        unknown_tool: The same for a call to a tool that there is not, or a function that is given
            its name and its arguments and returns the result.
        retry: LangGraph's `RetryPolicy`, or several, for a call of the model.
        timeout: Seconds, a timedelta, or LangGraph's `TimeoutPolicy`, for a call of the model; it
            needs the async methods, for LangGraph cannot stop a sync call.
        model_input: Called with the messages that the model is about to be sent, or with a
            `Context` and these messages; the model is sent what it returns.
        middleware: LangChain's `AgentMiddleware`s, made by class or decorator, the outermost first.
            What wraps calls runs around them; each hook is a node, `writer.Limit.before_model`. Tools
            that they bring are the agent's too. What they remove or replace of what others said is
            changed for this agent alone. Their state is kept with the thread, and must be something
            that its saver can save, but for an `UntrackedValue`. A key of it that `values=` declares
            at compile too is that value of the run.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    tools, sub_agents, middleware = as_tuple(tools), as_tuple(sub_agents), as_tuple(middleware)
    return_directly = as_tuple(return_directly)
    if not (callable(approve) or isinstance(approve, Mapping)):
        approve = as_tuple(approve)
    return ChatAgent(**locals())


def agent_tool(
    agent: "Agent", *, description: str = "", history: Literal["input", "shared"] = "input"
) -> AgentTool:
    """Make an agent a tool of a chat agent: it is given a `request`, and its last message comes back.

    It runs in a lane of its own: what it says is told as events and not added to the caller's
    history; its Exit, BreakLoop and transfers end nothing outside it; values that it writes are the
    caller's too. Questions inside it pause the run, and a resume repeats nothing.

    Where middleware makes the call again, as LangChain's `ToolRetryMiddleware` does, it runs again as
    `boss/find(0.1)`, and what the attempt before it said is void. A resume goes on with the last
    attempt; to middleware it gives again how those before it ended.

    >>> from agentgraph.testing import ScriptedChatModel, call, calls, transcript
    >>> find = function_agent("find", lambda ctx: f"{ctx.messages[-1].text} hum.")
    >>> model = ScriptedChatModel(responses=[calls(call("find", request="Bees")), "So they do."])
    >>> boss = chat_agent("boss", model, tools=[agent_tool(find)])
    >>> for line in transcript(Runner(boss).query("Go.")):
    ...     print(line)
    boss: [calls] find({"request": "Bees"})
    boss/find: Bees hum.
    boss: Bees hum.
    boss: So they do.

    Args:
        agent: The agent, a composite included; the tool has its name.
        description: What the model is told of it; without one, the agent's own description.
        history: "input": it sees the request only; "shared": what the caller sees, then the request.

    Returns:
        The tool, for `chat_agent(tools=[...])`.
    """
    return AgentTool(**locals())


def function_agent(
    name: str,
    fn: AgentFunction,
    *,
    description: str = "",
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
    retry: Retry = None,
    timeout: Timeout = None,
) -> FunctionAgent:
    """Make an agent that calls `fn(ctx)`, sync or async, plain or generator.

    `fn` returns, or yields one by one, `str` (said as an assistant message), a LangChain
    message, `Exit()`, `BreakLoop()`, `TransferTo(name)`, `Ask(...)`, `Custom(data)`,
    `SetValues(...)`, or nothing; or it returns a list of these. Nothing is taken after one that
    ends the agent.
    Its return annotation says what it may do, and so what is drawn: `-> str` only speaks,
    `-> str | Exit` may end the run, `-> Iterator[str | Ask]` may ask; without one it may do all.
    A run raises `InvalidOutputError` where `fn` gives anything else, or what its annotation does not
    name, and `AgentGraphError` where data of its signals has no JSON form.

    >>> from agentgraph.testing import transcript
    >>> def critic(ctx: Context) -> str | BreakLoop:
    ...     return BreakLoop() if ctx.iteration == 1 else "Too short."
    >>> refine = loop("refine", [function_agent("critic", critic)], max_iterations=5)
    >>> transcript(Runner(refine).query("Go."))
    ['refine/critic: Too short.', 'refine/critic/critic: [break_loop]']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; a name means one agent in a tree.
        fn: Called with a `Context`; a coroutine function too, in the sync calls as well.
        description: What the agent is for, in a sentence that other agents read.
        output_key: The value that the text of its last message becomes.
        history: Which messages `ctx.messages` holds; see `chat_agent`.
        retry: LangGraph's `RetryPolicy`, or several, for a call that fails.
        timeout: Seconds, a timedelta, or LangGraph's `TimeoutPolicy`, for a call; it needs the
            async methods, for LangGraph cannot stop a sync call.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    return FunctionAgent(**locals())


@overload
def agent(fn: AgentFunction, /) -> FunctionAgent: ...


@overload
def agent(
    *,
    name: str | None = None,
    description: str | None = None,
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
    retry: Retry = None,
    timeout: Timeout = None,
) -> Callable[[AgentFunction], FunctionAgent]: ...


def agent(
    fn: AgentFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
    retry: Retry = None,
    timeout: Timeout = None,
) -> FunctionAgent | Callable[[AgentFunction], FunctionAgent]:
    """Make a function an agent: `function_agent` as a decorator, bare or with arguments.

    The name is the function's, the description the first line of its docstring.

    >>> @agent
    ... def greeter(ctx):
    ...     "Says hello."
    ...     return "hello"
    >>> greeter.name, greeter.description
    ('greeter', 'Says hello.')

    Args:
        fn: The function, where the decorator is bare.
        name: The agent's name, if not the function's.
        description: What the agent is for, if not the first line of the docstring.
        output_key: The value that the text of its last message becomes.
        history: Which messages `ctx.messages` holds; see `chat_agent`.
        retry: As in `function_agent`.
        timeout: As in `function_agent`.

    Returns:
        The agent, in the place of the function; with arguments what makes a function an agent.
    """

    def decorate(fn: AgentFunction) -> FunctionAgent:
        return function_agent(
            name or str(getattr(fn, "__name__", type(fn).__name__)),
            fn,
            description=_first_line(fn) if description is None else description,
            output_key=output_key,
            history=history,
            retry=retry,
            timeout=timeout,
        )

    return decorate if fn is None else decorate(fn)


def graph_agent(
    name: str,
    graph: Graph,
    *,
    description: str = "",
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
    input: Callable[[Context], dict[str, Any]] | None = None,
    retry: Retry = None,
    timeout: Timeout = None,
) -> GraphAgent:
    """Make an agent that runs a LangGraph graph: one drawn by hand, or of `create_agent(...)`.

    The graph is given `{"messages": [...]}`. What is new in its messages the agent says, each as
    soon as the step that wrote it has ended; its tokens and its questions are the agent's, too. A
    graph without a saver keeps its state with the run's, so that a resume goes on inside it.

    >>> from agentgraph.testing import transcript
    >>> from langgraph.graph import START, MessagesState, StateGraph
    >>> builder = StateGraph(MessagesState)
    >>> builder = builder.add_node("greet", lambda state: {"messages": [("ai", "Hello.")]})
    >>> graph = builder.add_edge(START, "greet").compile()
    >>> transcript(Runner(graph_agent("greeter", graph)).query("Hi."))
    ['greeter: Hello.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; a name means one agent in a tree.
        graph: The compiled graph, with `messages` in its state. Or a `RemoteGraph`: it runs on a thread
            of the server's, whose id is that of the run's thread if that is a UUID and the agent is
            the first such that is not in a branch, else a UUID made of it and of the agent's place.
            The next turn finds that thread again; a call of the agent as a tool begins a new one.
        description: What the agent is for, in a sentence that other agents read.
        output_key: The value that the text of its last message becomes.
        history: Which messages the graph is given; see `chat_agent`.
        input: A sync function, called with a `Context` for the input of the graph; by default
            `{"messages": ctx.messages}`.
        retry: LangGraph's `RetryPolicy`, or several, for a run that fails.
        timeout: Seconds, a timedelta, or LangGraph's `TimeoutPolicy`, for a run; it needs the
            async methods, for LangGraph cannot stop a sync call.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    return GraphAgent(**locals())


def human(
    name: str,
    prompt: Any,
    *,
    response_schema: type | dict[str, Any] | None = None,
    output_key: str | None = None,
    description: str = "",
) -> HumanAgent:
    """Make an agent that asks a person, and says the answer.

    The run pauses there, and `resume` goes on with the answer: LangGraph's `interrupt()`, told as an
    event. A text is said as it is, any other answer as JSON. A run raises `MissingValueError` where
    the prompt names a value that there is not.

    >>> from agentgraph.testing import transcript
    >>> boss = human("boss", "Print {title}?", response_schema={"enum": ["yes", "no"]})
    >>> runner = Runner(boss)
    >>> transcript(runner.run("Go.", thread_id="monday", values={"title": "Bees"}))
    ['boss: [asks] Print Bees?']
    >>> transcript(runner.resume("monday", "yes"))
    ['boss: yes']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; a name means one agent in a tree.
        prompt: What is asked: a template as in `chat_agent`, or plain data.
        response_schema: What an answer must fit, or `resume` raises `InvalidAnswerError`: a type
            that pydantic knows, or a JSON schema. Without one any plain data is an answer.
        output_key: The value that the answer becomes, as plain data.
        description: What the person is asked for, in a sentence that other agents read.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    return HumanAgent(**locals())


def _first_line(fn: AgentFunction) -> str:
    return (getattr(fn, "__doc__", None) or "").strip().partition("\n")[0]
