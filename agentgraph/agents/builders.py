"""The builders of agents; `compile_agent` reports the faults of a tree."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, overload

from pydantic import BaseModel

from agentgraph.agents.agents import (
    Agent,
    AgentFunction,
    AgentTool,
    Approval,
    ArgsSchema,
    Caching,
    Case,
    ChatAgent,
    Condition,
    EachAgent,
    Enabled,
    FunctionAgent,
    Graph,
    GraphAgent,
    Handoff,
    HistoryPolicy,
    HumanAgent,
    InputFunction,
    InputText,
    Instruction,
    KeyFunction,
    LoopAgent,
    Middleware,
    Model,
    ModelInput,
    OnToolError,
    OnUnknownTool,
    OutputFunction,
    OutputSchema,
    ParallelAgent,
    Retry,
    SequentialAgent,
    Source,
    Step,
    SwarmAgent,
    SwitchAgent,
    Timeout,
    Tool,
    ToolTimeout,
    WorkflowAgent,
)
from agentgraph.agents.entries import Reply
from agentgraph.agents.habits.options import hints_options
from agentgraph.agents.langchain_values import is_tool
from agentgraph.agents.limits import Limits
from agentgraph.agents.signals import NO_DEFAULT, AnswerTimeout, Default, ResponseSchema
from agentgraph.errors import InvalidAgentError
from agentgraph.safe_repr import shown

_NO_CASES = 'is not a mapping from keys to agents; pass one, such as {"yes": a, "no": b}'
_NO_HANDOFFS = 'is not a mapping of names to names; pass one, such as {"a": ["b"]}'


@hints_options
def chat_agent(
    name: str,
    model: Model,
    *,
    description: str = "",
    instruction: Instruction = "",
    tools: Iterable[Tool] = (),
    sub_agents: Iterable[Agent | Handoff] = (),
    sub_agents_return: bool = False,
    peers: bool = False,
    sticky: bool = False,
    output_key: str | None = None,
    output_schema: OutputSchema = None,
    history: HistoryPolicy = "shared",
    max_iterations: int | None = 20,
    on_max_iterations: Literal["raise", "answer"] = "raise",
    return_directly: Iterable[str] = (),
    exit_tool: bool = False,
    break_tool: bool = False,
    approve: Approval = (),
    interrupt_mode: Literal["batched", "per_call"] = "batched",
    approve_timeout: AnswerTimeout = None,
    parallel_tools: bool = True,
    on_tool_error: OnToolError = "return",
    tool_timeout: ToolTimeout = None,
    unknown_tool: OnUnknownTool = "return",
    retry: Retry = None,
    timeout: Timeout = None,
    model_input: ModelInput | None = None,
    middleware: "Iterable[Middleware]" = (),
    limits: Limits | None = None,
) -> ChatAgent:
    """Make an agent that calls a chat model and runs its tool calls, until there are no more calls.

    A tool may return any result of a LangChain tool, including `Command(update={"messages": [...],
    "values": {...}})`, or `SetValues(...)`, `Custom(...)`, `Exit()`, `BreakLoop()`,
    `TransferTo(name)`, or a list of these with a text or `ToolMessage` objects. Its return annotation
    decides which of these the drawing of the graph shows, as with `function_agent`. A tool may call
    LangGraph's `interrupt()`.

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

    Functions passed as options may be async, or return an awaitable; both need the async methods.
    Tools may be async in sync runs too.

    A run raises `MissingValueError` if the instruction names a missing value, `MaxIterationsError`, and
    `InvalidOutputError` if no reply fits `output_schema`, or if the model, a tool, `model_input`, or a
    function for the model or the instruction returns an invalid value.

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        model: A LangChain chat model, or a runnable that wraps one: from `with_fallbacks`, or, without
            tools, from `with_retry`; `retry` works with and without tools. Arguments that were bound to
            it stay bound. Or a name, such as "openai:gpt-5", for LangChain's `init_chat_model`: the
            first run creates all models that agents of its tree name, before it saves anything. Or a
            function from a `Context` to either, called for each step. LangChain caches replies for a
            model with a `cache`, or after `set_llm_cache`.
        description: The purpose of the agent, in one sentence for other agents.
        instruction: The system message, a template: `{topic}` is replaced by the value of the run,
            `{topic?}` by nothing if the value is missing, as in google-adk; `{{` and `}}` are braces,
            and any other text in braces is unchanged. Or a `SystemMessage`, which is sent unchanged
            (a further block describes the transfers). Or a function from a `Context` to either,
            called for each step.
        tools: LangChain tools, functions, agents (`agent_tool`), or dicts that describe tools
            which the model's provider runs.
        sub_agents: Agents to which it may transfer, as in google-adk, with the tools
            `transfer_to_<name>`, or with the tool of a `handoff(agent, ...)`. A chat agent among them
            may transfer back; a sub-agent that ends without a transfer ends this agent too.
        sub_agents_return: Whether this agent continues when a sub-agent ends; then sub-agents have no
            tool to transfer back.
        peers: Whether its sub-agents may transfer to each other.
        sticky: Whether the next turn, or the next iteration of a loop around it, starts at the
            sub-agent that was active when it ended, as in google-adk, if that can transfer. The value
            `<name>_active` names the active agent, as in a `swarm`.
        output_key: The name of the value that stores the text of the last message; with
            `output_schema` the answer, as plain data.
        output_schema: The schema of the answer, LangChain's `response_format`: a type that pydantic
            knows, a JSON schema, a `ProviderStrategy` or a `ToolStrategy`. The provider enforces it if
            the model's profile supports that; any other model answers by calling a tool that
            LangChain makes from it; if the model takes no tools, or the schema does not describe an
            object, the schema is added to the instruction. The model may correct a reply that does
            not fit, at most twice; for tool calls `handle_errors` of the strategy decides. Other
            agents see the answer as JSON.
        history: The messages for the model: "shared" (all), "path" (those on the path of the run to
            this agent), "own", "last" (the user's input and the last answer), "input" (the
            user's input). Or a function from entries to messages, `trimmed(...)` or `summarized(...)`.
        max_iterations: The maximum number of model calls in one activation, at least 1; None for no
            limit.
        on_max_iterations: Whether that maximum is an error: "raise" raises `MaxIterationsError`,
            "answer" calls the model once more without tools.
        return_directly: Names of tools whose result ends the agent; of several results, the last.
        exit_tool: Whether the model may end the run, with the tool `exit(final_result)`.
        break_tool: Whether the model may end the nearest loop, with the tool
            `break_loop(final_result)`.
        approve: The tools whose calls a person must approve, edit, reject or respond to: their names,
            or the `interrupt_on` of LangChain's human in the loop, `{"mail": True, "pay":
            {"allowed_decisions": ["approve", "reject"], "description": "..."}}`. Or a function from a
            call (`{"name": ..., "args": ..., "id": ...}`) to whether it needs approval, called once
            per call.
        interrupt_mode: "batched" asks one question for all calls of a message, "per_call" one per call.
            "batched" asks before any of the calls runs, with an action request for each call that needs
            approval. An answer has one decision per request, in order: `{"decisions": [{"type":
            "approve"}]}`, or "edit" and an `edited_action`, "reject" or "respond" and a `message`.
            "per_call" asks for each call as it starts, while calls without approval run; an answer is
            one decision. The formats are LangChain's.
        approve_timeout: The time to wait for an approval, in seconds or as a timedelta; after that the
            calls are rejected, and the model reads why. By default it waits as long as it takes.
        parallel_tools: Whether the calls of one message run at the same time, or in their order.
        on_tool_error: "return" sends an exception in a tool to the model, "raise" fails the agent. Or,
            as in LangGraph's `ToolNode`: one or several exception types to send to the model, a text to
            send, or a function from the exception to the text (only for the types in the annotation of
            its parameter). The model always receives an error for arguments that do not fit.
        tool_timeout: The maximum time of a call of an async tool, in seconds or as a timedelta: one for
            all tools, or by tool name; after that the tool fails with a `TimeoutError`. For retries
            and limits of single tools use `tool.with_retry()`, or LangChain's `ToolRetryMiddleware` and
            `ToolCallLimitMiddleware`.
        unknown_tool: The treatment of a call to an unknown tool: "return" or "raise", as above, or a
            function from the name and arguments to the result.
        retry: LangGraph's `RetryPolicy`, or several, for a model call.
        timeout: Seconds, a timedelta, or LangGraph's `TimeoutPolicy`, for a model call; it needs the
            async methods, because LangGraph cannot stop a sync call.
        model_input: A function that edits the messages for the model: called with these messages, or
            with a `Context` and these messages, it returns the messages to send.
        middleware: LangChain's `AgentMiddleware` objects, made by class or decorator, outermost first.
            They wrap the calls as in LangChain; each hook is a node, `writer.Limit.before_model`. The
            agent also gets their tools. Messages of other agents that they remove or replace change
            for this agent only. Their state is saved with the thread, so the checkpointer must be able
            to save it, except an `UntrackedValue`. A state key that is also declared with `values=` of
            `compile_agent` is that value of the run.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it.
    """
    tools, middleware = as_tuple(tools), as_tuple(middleware)
    sub_agents, by_handoff = _without_handoffs(sub_agents)
    return_directly = as_tuple(return_directly)
    if not (callable(approve) or isinstance(approve, Mapping)):
        approve = as_tuple(approve)
    return ChatAgent(**locals())


@hints_options
def handoff(
    agent: Agent,
    *,
    name: str | None = None,
    description: str | None = None,
    context: Literal["shared", "last"] | None = None,
    args_schema: ArgsSchema = None,
) -> Handoff:
    """Define the transfer to an agent among the `sub_agents` of a chat agent, or in a `swarm`.

    >>> from agentgraph.testing import ScriptedChatModel, call, calls, transcript
    >>> desk = ScriptedChatModel(responses=[calls(call("ask_billing"))])
    >>> bills = function_agent("bills", lambda ctx: f"{len(ctx.messages)} messages seen.")
    >>> billing = handoff(bills, name="ask_billing", description="Knows what is paid.", context="last")
    >>> for line in transcript(Runner(chat_agent("desk", desk, sub_agents=[billing])).query("Paid?")):
    ...     print(line)
    desk: [calls] ask_billing({})
    desk: Transferred to bills.
    desk: [transfer_to] bills
    desk/bills: 1 messages seen.

    With an `args_schema` the model passes arguments to the agent. The agent reads them as one user
    message of JSON, and each field is a value while it runs:

    >>> from pydantic import BaseModel
    >>> class Refund(BaseModel):
    ...     order: int
    >>> desk = ScriptedChatModel(responses=[calls(call("transfer_to_refunds", order=7))])
    >>> refunds = function_agent("refunds", lambda ctx: f"Order {ctx.values['order']} is paid back.")
    >>> team = swarm("team", [chat_agent("desk", desk), handoff(refunds, args_schema=Refund)])
    >>> transcript(Runner(team).query("My money!"))[-1]
    'team/desk/refunds: Order 7 is paid back.'

    Args:
        agent: The agent.
        name: The name of the tool for the transfer; by default `transfer_to_<name>`. A function still
            names the agent: `TransferTo("bills")`.
        description: The text about the agent for the model; by default the agent's description.
        context: The messages that a chat, function or graph agent sees: "shared" for those of its
            `history`, or "last" for the user's input and the last answer, as with `history="last"`.
            The default is "shared"; with an `args_schema` the default is only the arguments, and a
            given `context` puts them after that history.
        args_schema: The arguments that a model passes with the transfer: a pydantic model, or the JSON
            schema of an object; by default none. `TransferTo` in a function passes no arguments.

    Returns:
        The handoff, which replaces the agent in these lists; other lists take plain agents.
    """
    return Handoff(**locals())


def _without_handoffs(agents: object) -> tuple[tuple[Agent, ...], tuple[Handoff, ...]]:
    given = as_tuple(agents)
    by_handoff = tuple(each for each in given if isinstance(each, Handoff))
    return tuple(each.target if isinstance(each, Handoff) else each for each in given), by_handoff


@hints_options
def agent_tool(
    agent: Agent,
    *,
    description: str = "",
    history: Literal["input", "shared"] = "input",
    args_schema: ArgsSchema = None,
    output: Callable[[Reply], Any] | None = None,
    enabled: Enabled = None,
) -> AgentTool:
    """Make an agent a tool of a chat agent: it gets a `request`, and returns its last message.

    Each call is isolated: the agent's messages are yielded as events but not added to the caller's
    history, and its Exit, BreakLoop and transfers end nothing outside of the call. The caller also gets
    the values that it writes. Questions inside it pause the run, and a resume repeats nothing.

    If middleware repeats the call, as LangChain's `ToolRetryMiddleware` does, the agent runs again as
    `boss/find(0.1)`, and a `discarded` event names the previous attempt. A resume continues the last
    attempt; for middleware it replays the outcomes of the earlier attempts.

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
        agent: The agent, which may be a composite; the tool has the same name.
        description: The description for the model; by default the agent's description.
        history: "input": the agent sees only the request; "shared": it also sees the caller's messages
            before the request.
        args_schema: The arguments of the tool, in place of `request`: a pydantic model, a dataclass, a
            typed dict, or a JSON schema of an object. The agent's request is the arguments as JSON
            text, and each is a value that the agents in the call see, as plain data.
        output: A function, sync or async, from the agent's `Reply` (with `data`, `values` and
            `messages`, as of `ctx.run`) to the result for the model: a text, or data, which becomes
            JSON. The default is the text of the last message, which is JSON for an agent with an
            `output_schema`.
        enabled: Whether the model may call the tool, by default always: True or False, the name of a
            value that decides, or a function from a `Context`, sync or async. It is evaluated before
            each model call; a call to the tool while it is disabled counts as one to an unknown tool.

    Returns:
        The tool, for `chat_agent(tools=[...])`.
    """
    return AgentTool(**locals())


@hints_options
def function_agent(
    name: str,
    fn: AgentFunction,
    *,
    agents: Iterable[Agent] = (),
    description: str = "",
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
    retry: Retry = None,
    timeout: Timeout = None,
    cache_policy: Caching = None,
    limits: Limits | None = None,
) -> FunctionAgent:
    """Make an agent that calls `fn(ctx)`, sync or async, plain or generator.

    `fn` returns, or yields one by one, `str` (emitted as an assistant message), a LangChain
    message, `Exit()`, `BreakLoop()`, `TransferTo(name)`, `Ask(...)`, `Custom(data)`,
    `SetValues(...)`, or nothing; or it returns a list of these. Items after one that ends the agent
    are ignored.
    Its return annotation declares its possible results, which the drawing shows: `-> str` only emits
    messages, `-> str | Exit` may end the run, `-> Iterator[str | Ask]` may ask; by default all are
    possible.
    A run raises `InvalidOutputError` if `fn` returns or yields anything else, or anything that its
    annotation does not name, and `AgentGraphError` if data of its signals has no JSON form.

    >>> from agentgraph.testing import transcript
    >>> def critic(ctx: Context) -> str | BreakLoop:
    ...     return BreakLoop() if ctx.iteration == 1 else "Too short."
    >>> refine = loop("refine", [function_agent("critic", critic)], max_iterations=5)
    >>> transcript(Runner(refine).query("Go."))
    ['refine/critic: Too short.', 'refine/critic/critic: [break_loop]']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        fn: Called with a `Context`; it may be a coroutine function, also for the sync methods.
        agents: The agents that `fn` may run, by `ctx.run(name, request)`.
        description: The purpose of the agent, in one sentence for other agents.
        output_key: The name of the value that stores the text of its last message.
        history: The messages in `ctx.messages`; see `chat_agent`. In an async run a history function is
            called before `fn`.
        retry: LangGraph's `RetryPolicy`, or several, for a call that fails.
        timeout: Seconds, a timedelta, or LangGraph's `TimeoutPolicy`, for a call; it needs the
            async methods, because LangGraph cannot stop a sync call.
        cache_policy: LangGraph's `CachePolicy`, for a graph compiled with a `cache=`: where the key is
            in the cache, `fn` is not called, and the agent emits the cached result: messages
            (under new ids, without `usage_metadata`), custom data, values and its signal. The default
            key is `ctx.messages`, without ids and metadata, and `ctx.values`; a function that depends
            on more, such as `ctx.context` or `ctx.iteration`, needs a `key_func`, a function from
            a `Context` to a text or bytes. `ttl` is in seconds; None keeps an entry permanently. An
            entry belongs to the shape of the tree, the agent's address, and the parts of its function:
            its code, and the texts, numbers and functions that it uses. The contents of lists, dicts
            and objects outside of the function do not count: they need a `key_func`. A call that
            asks, fails, or changes earlier messages is not cached.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it.
    """
    agents = as_tuple(agents)
    return FunctionAgent(**locals())


@overload
def agent(fn: AgentFunction, /) -> FunctionAgent: ...


@overload
def agent(
    *,
    name: str | None = None,
    agents: Iterable[Agent] = (),
    description: str | None = None,
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
    retry: Retry = None,
    timeout: Timeout = None,
    cache_policy: Caching = None,
    limits: Limits | None = None,
) -> Callable[[AgentFunction], FunctionAgent]: ...


@hints_options
def agent(
    fn: AgentFunction | None = None,
    /,
    *,
    name: str | None = None,
    agents: Iterable[Agent] = (),
    description: str | None = None,
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
    retry: Retry = None,
    timeout: Timeout = None,
    cache_policy: Caching = None,
    limits: Limits | None = None,
) -> FunctionAgent | Callable[[AgentFunction], FunctionAgent]:
    """Make a function an agent: `function_agent` as a decorator, with or without arguments.

    By default the name is the function's, and the description the first line of its docstring.

    >>> @agent
    ... def greeter(ctx):
    ...     "Says hello."
    ...     return "hello"
    >>> greeter.name, greeter.description
    ('greeter', 'Says hello.')

    Args:
        fn: The function, if the decorator has no arguments.
        name: The agent's name, if not the function's.
        description: The purpose of the agent, if not the first line of the docstring.

    The other options are those of `function_agent`.

    Returns:
        The agent, which replaces the function; with arguments, the decorator.

    Raises:
        InvalidAgentError: The decorated object is a class.
    """

    def decorate(fn: AgentFunction) -> FunctionAgent:
        if isinstance(fn, type):
            raise InvalidAgentError([class_fault(fn)])
        if isinstance(fn, str):
            instead = f"@ag.agent(name={fn!r}), or ag.function_agent({fn!r}, fn)"
            raise InvalidAgentError([f"{fn!r} is not a function; write {instead}"])
        return function_agent(
            name or str(getattr(fn, "__name__", type(fn).__name__)),
            fn,
            agents=agents,
            description=_first_line(fn) if description is None else description,
            output_key=output_key,
            history=history,
            retry=retry,
            timeout=timeout,
            cache_policy=cache_policy,
            limits=limits,
        )

    return decorate if fn is None else decorate(fn)


@hints_options
def graph_agent(
    name: str,
    graph: Graph,
    *,
    description: str = "",
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
    input: InputFunction | None = None,
    output: OutputFunction | None = None,
    flat: bool = False,
    retry: Retry = None,
    timeout: Timeout = None,
    cache_policy: Caching = None,
    limits: Limits | None = None,
) -> GraphAgent:
    """Make an agent that runs a LangGraph graph, written by hand or made by `create_agent(...)`.

    The graph gets `{"messages": [...]}`. The agent emits each new message as soon as the step that
    wrote it has ended, and streams the graph's tokens and questions. The state of a graph without a
    checkpointer is saved with the run, so that a resume continues inside it.

    >>> from agentgraph.testing import transcript
    >>> from langgraph.graph import START, MessagesState, StateGraph
    >>> builder = StateGraph(MessagesState)
    >>> builder = builder.add_node("greet", lambda state: {"messages": [("ai", "Hello.")]})
    >>> graph = builder.add_edge(START, "greet").compile()
    >>> transcript(Runner(graph_agent("greeter", graph)).query("Hi."))
    ['greeter: Hello.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        graph: The compiled graph, with `messages` in its state; with `output` a graph of any state, or
            an `@entrypoint`. A graph compiled with `checkpointer=True` keeps its state over activations
            and turns, separately for each occurrence in the tree; of concurrent calls as a tool, the
            last to end determines the state. Any other graph starts each activation from scratch. Or a
            `RemoteGraph`, which runs on a thread of the server. The server thread has the id of the
            run's thread if that is a UUID and the agent is the first remote one outside of branches;
            otherwise it has a UUID made from that id and the agent's address. The next turn uses that
            thread again; a call of the agent as a tool starts a new one. The server gets the run's
            config, and the fields of its context that the remote graph's own context has.
        description: The purpose of the agent, in one sentence for other agents.
        output_key: The name of the value that stores the text of its last message.
        history: The messages for the graph; see `chat_agent`.
        input: A function, sync or async, from a `Context` to the input of the graph; by default
            `{"messages": ctx.messages}`.
        output: A function, sync or async, from the result of the graph's `invoke` to the output of the
            agent: a text, a message, `SetValues(...)`, `Custom(...)`, or a list of these; the agent
            emits nothing else. By default it emits the graph's new messages.
        flat: Whether to flatten the graph: its nodes become nodes of the tree's own graph, not of a
            graph inside it. Each step is then saved like one of the tree, at a fraction of the cost,
            and has its own address, `job/planner`, and after a repetition `job/planner[1]`. It is for a
            `StateGraph` with one next node at a time, such as that of `create_agent(...)`; several
            packets for one node (`Send`) run concurrently. A run that continues at several nodes in
            parallel raises `SeveralWaysError`. As a tool it starts each call from scratch, even if it
            keeps its state.
        retry: LangGraph's `RetryPolicy`, or several, for a run that fails; with `flat` for a node.
        timeout: Seconds, a timedelta, or LangGraph's `TimeoutPolicy`, for a run, with `flat` for a
            node; it needs the async methods, because LangGraph cannot stop a sync call.
        cache_policy: LangGraph's `CachePolicy`, as in `function_agent`, for a whole run of the graph,
            so not with `flat`. The default key is the input of the graph, its messages without ids and
            metadata; `key_func` gets a `Context`. Entries belong to a graph of the same nodes, models
            and tools. A run that paused is not cached. A graph that keeps its state over turns needs a
            `key_func` that includes the state. Nodes inside the graph that have their own policies use
            the cache of that graph.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it.
    """
    return GraphAgent(**locals())


@hints_options
def human(
    name: str,
    prompt: Any,
    *,
    response_schema: ResponseSchema = None,
    timeout: AnswerTimeout = None,
    default: Default = NO_DEFAULT,
    output_key: str | None = None,
    description: str = "",
    limits: Limits | None = None,
) -> HumanAgent:
    """Make an agent that asks a person, and emits the answer as a message.

    The run pauses there, with LangGraph's `interrupt()` as an event, and `resume` continues it with the
    answer. The message has a text answer unchanged, and any other answer as JSON. A run raises
    `MissingValueError` if the prompt names a missing value.

    >>> from agentgraph.testing import transcript
    >>> boss = human("boss", "Print {title}?", response_schema={"enum": ["yes", "no"]})
    >>> runner = Runner(boss)
    >>> transcript(runner.run("Go.", thread_id="monday", values={"title": "Bees"}))
    ['boss: [asks] Print Bees?']
    >>> transcript(runner.resume("monday", "yes"))
    ['boss: yes']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        prompt: The question: a template as in `chat_agent`, or plain data.
        response_schema: The schema of an answer: a type that pydantic knows, or a JSON schema;
            `resume` raises `InvalidAnswerError` for an answer that does not fit. By default any plain
            data is an answer.
        timeout: The time to wait for an answer, in seconds or as a timedelta; by default, as long as it
            takes. It counts from when the question is asked, also while no process runs.
        default: The answer after that time; None is one. Without it the agent fails then, with
            `QuestionTimeoutError`, and a resume asks again. It needs a timeout.
        output_key: The name of the value that stores the answer, as plain data.
        description: The purpose of the question, in one sentence for other agents.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it.
    """
    return HumanAgent(**locals())


def class_fault(kind: type) -> str:
    """Describe the fault of a class that is passed as the function of an agent."""
    name = kind.__name__
    return (
        f"{name}: it is a class, and an agent calls a function; decorate a function, or pass a "
        f'callable instance: ag.function_agent("{name.lower()}", {name}())'
    )


def _first_line(fn: AgentFunction) -> str:
    return (getattr(fn, "__doc__", None) or "").strip().partition("\n")[0]


@hints_options
def sequential(
    name: str,
    sub_agents: Iterable[Agent],
    *,
    description: str = "",
    limits: Limits | None = None,
) -> SequentialAgent:
    """Make an agent that runs its sub-agents one after the other.

    Each sees the messages before it, and each earlier sub-agent is one step of its run path. It
    corresponds to google-adk's `SequentialAgent`.

    >>> from agentgraph.testing import transcript
    >>> writer = function_agent("writer", lambda ctx: "A draft.")
    >>> critic = function_agent("critic", lambda ctx: "Too short.")
    >>> transcript(Runner(sequential("report", [writer, critic])).query("Go."))
    ['report/writer: A draft.', 'report/writer/critic: Too short.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        sub_agents: The agents, in the order in which they run; at least one.
        description: The purpose of the agent, in one sentence for other agents.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it.
    """
    sub_agents = as_tuple(sub_agents)
    return SequentialAgent(**locals())


@hints_options
def parallel(
    name: str,
    sub_agents: Iterable[Agent],
    *,
    description: str = "",
    on_error: Literal["fail", "wait", "collect", "first"] = "fail",
    max_concurrency: int | None = None,
    limits: Limits | None = None,
    accept: Callable[[Reply], object] | None = None,
) -> ParallelAgent:
    """Make an agent that runs its sub-agents at the same time.

    Each branch sees the history before the parallel agent and its own messages; after the join every
    agent sees all branches, in declared order. An Exit or a BreakLoop in a branch takes effect at the
    join. It corresponds to google-adk's `ParallelAgent`.

    >>> from agentgraph.testing import transcript
    >>> legal = function_agent("legal", lambda ctx: "Allowed.")
    >>> press = function_agent("press", lambda ctx: "Good news.")
    >>> sorted(transcript(Runner(parallel("review", [legal, press])).query("Go.")))
    ['review/legal: Allowed.', 'review/press: Good news.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        sub_agents: The branches, in the order in which they are joined; at least one. No two of them
            may write the same `output_key`, unless `on_error` is "first".
        description: The purpose of the agent, in one sentence for other agents.
        on_error: The effect of a branch that fails. "fail": the others stop after their current step,
            and the error is raised. "wait": the others finish first. "collect": the error becomes
            the last message of its branch, and the run continues. "first": no effect, as long as
            another branch succeeds; the first success ends the other branches and discards their
            output.
        max_concurrency: Maximum number of branches that run at once; by default 64.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.
        accept: With `on_error="first"`: returns whether the `Reply` of a branch that has ended wins,
            sync or async. It is called for one branch after the other, in the order in which they end,
            and its answer is saved with the branch's result. The output of a branch that is not
            accepted is discarded. If it accepts none, the agent fails with `NoneAcceptedError`. By
            default every reply wins.

    Returns:
        The agent; `compile_agent` checks it.
    """
    sub_agents = as_tuple(sub_agents)
    return ParallelAgent(**locals())


@hints_options
def loop(
    name: str,
    sub_agents: Iterable[Agent],
    *,
    description: str = "",
    max_iterations: int | None,
    until: Condition | None = None,
    limits: Limits | None = None,
) -> LoopAgent:
    """Make an agent that runs its sub-agents one after the other, repeatedly.

    BreakLoop ends the loop at once, and the run continues after it. The loop corresponds to
    google-adk's `LoopAgent`, and BreakLoop to its `escalate`.

    >>> from agentgraph.testing import transcript
    >>> writer = function_agent("writer", lambda ctx: f"Draft {ctx.iteration}.")
    >>> transcript(Runner(loop("refine", [writer], max_iterations=2)).query("Go."))
    ['refine/writer: Draft 0.', 'refine/writer/writer: Draft 1.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        sub_agents: The body of the loop, in the order in which it runs; at least one agent.
        description: The purpose of the agent, in one sentence for other agents.
        max_iterations: Maximum number of iterations, at least 1, after which the loop ends without an
            error; None for no limit, which is allowed only if `until` or an agent inside can end the
            loop.
        until: A function, sync or async, called with a `Context` after each complete iteration; the
            loop ends when it returns True.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it.
    """
    sub_agents = as_tuple(sub_agents)
    return LoopAgent(**locals())


@hints_options
def step(
    agent: Agent,
    *,
    depends_on: Iterable[str] = (),
    when: Source | None = None,
    input: InputText | None = None,
    retry: Retry = None,
    timeout: Timeout = None,
    compensate: Agent | AgentFunction | None = None,
) -> Step:
    """Make a step of a workflow.

    ```
    step(write, depends_on=["find"], input="Write from ${results.find}", compensate=withdraw)
    ```

    Args:
        agent: The agent that runs; the step has the same name.
        depends_on: The names of the steps that must finish first.
        when: The name of a value, or a function of a context, sync or async: the step runs only if
            that is true. It is evaluated when the dependencies are done, and not again once the step
            has started. A skipped step counts as done, emits nothing, and its result is an empty text.
        input: The agent's request, a template: `${results.analyze}` is the last message of the step
            `analyze`, which must be a dependency, direct or not, and `${results.analyze.title}` a
            field of the data under its `output_key`; `${topic}` or `{topic}` is a value of the run. Or
            a function of a context, sync or async, which has the values and messages of the
            dependencies, to a text. The agent sees only that. Without `input` it sees the messages
            before the workflow, and those of its dependencies.
        retry: LangGraph's `RetryPolicy`, or several, for each leaf of the step without a `retry`: only
            the leaf that failed runs again.
        timeout: Seconds, a timedelta, or LangGraph's `TimeoutPolicy`, for each attempt of a leaf of
            the step without a `timeout`; it needs the async methods.
        compensate: An agent that undoes the step, or a function as for `function_agent`. It sees
            the messages of the step, and runs when another step has failed permanently.

    Returns:
        The step, for `workflow(name, [...])`.
    """
    if compensate is not None and not isinstance(compensate, Agent):
        name = agent.name if hasattr(agent, "name") else shown(agent)
        compensate = FunctionAgent(name=f"undo_{name}", fn=compensate)
    return Step(
        agent=agent,
        depends_on=as_tuple(depends_on),
        when=when,
        input=input,
        retry=retry,
        timeout=timeout,
        compensate=compensate,
    )


@hints_options
def workflow(
    name: str,
    steps: Iterable[Step | Agent],
    *,
    description: str = "",
    on_error: Literal["fail", "wait"] = "fail",
    limits: Limits | None = None,
) -> WorkflowAgent:
    """Make an agent that runs steps, each as soon as its dependencies are done.

    In the history after the workflow, each step follows its dependencies; otherwise the steps are in
    declared order.

    After a step has failed permanently, no further step starts. If any step has a `compensate`, the
    failure is final: the finished steps are undone once each, the last to finish first, and
    `StepFailedError` is raised, also by every resume. Otherwise it is raised as soon as the running
    steps have ended, and a resume runs only the steps that have not finished.

    >>> from agentgraph.testing import transcript
    >>> find = function_agent("find", lambda ctx: "Bees hum.")
    >>> write = function_agent("write", lambda ctx: ctx.messages[-1].text)
    >>> steps = [find, step(write, depends_on=["find"], input="It says: ${results.find}")]
    >>> transcript(Runner(workflow("report", steps)).query("Go."))
    ['report/find: Bees hum.', 'report/write: It says: Bees hum.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        steps: The steps, in any order, at least one; a plain agent is a step without dependencies. No
            two of them may write the same `output_key`.
        description: The purpose of the agent, in one sentence for other agents.
        on_error: The effect of a failed step on running ones: "fail" stops each of them after its
            current node, "wait" lets them finish, and then they are undone, too. If the process dies
            while a step runs, and the failure is final, the effects of that step are unknown: a resume
            continues the step to its end and undoes it. With "fail", a resume does not run a step
            again that has no `compensate`, and leaves a step that asks at its question.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it.
    """
    made = tuple(each if isinstance(each, Step) else step(each) for each in as_tuple(steps))
    return WorkflowAgent(
        name=name, steps=made, description=description, on_error=on_error, limits=limits
    )


@hints_options
def swarm(
    name: str,
    agents: Iterable[Agent | Handoff],
    *,
    start: str | None = None,
    sticky: bool = True,
    handoffs: Mapping[str, Iterable[str]] | None = None,
    description: str = "",
    limits: Limits | None = None,
) -> SwarmAgent:
    """Make an agent of several agents that transfer to each other, as in langgraph-swarm.

    The model of a chat agent among them has a tool `transfer_to_<name>` for each of the others; a
    function returns `TransferTo(name)`. The swarm ends when the active agent ends without a transfer.
    In a later turn or iteration it starts at the agent that was active last. The value `<name>_active`
    (with `_` for `-`) is the name of that agent, and may be written. In a branch, an item or a call of
    a tool the value is local, and the swarm starts at `start`.

    >>> from agentgraph.testing import ScriptedChatModel, call, calls, transcript
    >>> to_bob = ScriptedChatModel(responses=[calls(call("transfer_to_bob"))])
    >>> bob = ScriptedChatModel(responses=["Bob here.", "Still Bob."])
    >>> runner = Runner(swarm("team", [chat_agent("ann", to_bob), chat_agent("bob", bob)]))
    >>> for line in transcript(runner.run("Hi.", thread_id="1")):
    ...     print(line)
    team/ann: [calls] transfer_to_bob({})
    team/ann: Transferred to bob.
    team/ann: [transfer_to] bob
    team/ann/bob: Bob here.
    >>> [(event.address, event.text) for event in runner.run("Hi again.", thread_id="1")]
    [('team[0]/bob', 'Still Bob.')]

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        agents: The agents, or a `handoff(...)` of each: chat, function and graph agents, chat agents
            with their own sub-agents, and swarms, whose agents may also transfer to the agents of each
            swarm around them. The number after the swarm in an address counts the transfers since its
            start.
        start: The name of the agent at which it starts; by default the first.
        sticky: Whether it starts at the agent that was active last.
        handoffs: The allowed transfers, `{"ann": ["bob"]}`; by default each agent to every other. An
            agent that is not a key transfers to no agent of this swarm.
        description: The purpose of the agent, in one sentence for other agents.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it. A run raises `InvalidOutputError` if the value does not
        name one of its agents.
    """
    sub_agents, by_handoff = _without_handoffs(agents)
    names = handoffs if isinstance(handoffs, Mapping) else {}
    is_wrong = handoffs is not None and names is not handoffs
    return SwarmAgent(
        name=name,
        sub_agents=sub_agents,
        by_handoff=by_handoff,
        start=start,
        sticky=sticky,
        handoffs=None if handoffs is None else {each: as_tuple(to) for each, to in names.items()},
        description=description,
        limits=limits,
        faults=(f"handoffs={shown(handoffs)} {_NO_HANDOFFS}",) if is_wrong else (),
    )


# With a union in place of the overloads, mypy infers `{True: Exit(), False: a}` as a dict of objects.
@overload
def switch(
    name: str,
    choose: Source,
    cases: Mapping[Any, Case],
    *,
    otherwise: Case | None = None,
    description: str = "",
    limits: Limits | None = None,
) -> SwitchAgent: ...


@overload
def switch(
    name: str,
    choose: Source,
    cases: Iterable[tuple[Any, Case]],
    *,
    otherwise: Case | None = None,
    description: str = "",
    limits: Limits | None = None,
) -> SwitchAgent: ...


@hints_options
def switch(
    name: str,
    choose: Source,
    cases: Mapping[Any, Case] | Iterable[tuple[Any, Case]],
    *,
    otherwise: Case | None = None,
    description: str = "",
    limits: Limits | None = None,
) -> SwitchAgent:
    """Make an agent that runs one of several agents, chosen by a value or a function.

    It has its own node, and emits its choice: `event.action.chosen`. In a loop it chooses again in each
    iteration; a run that is resumed later does not choose again. The run path of the chosen agent
    continues that of the switch.

    >>> from agentgraph.testing import transcript
    >>> ask = function_agent("ask", lambda ctx: "Which bees?")
    >>> write = function_agent("write", lambda ctx: "Bees hum.")
    >>> def is_clear(ctx: Context) -> bool:
    ...     return "bees" in ctx.messages[-1].text
    >>> runner = Runner(switch("route", is_clear, {True: write, False: ask}))
    >>> transcript(runner.query("Tell me about bees."))
    ['route: [chosen] write', 'route/write: Bees hum.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        choose: The name of a value, or a function of a context, sync or async; the value or the result
            is the key of a case.
        cases: The cases by key, as a mapping or as pairs: an agent; `SKIP`, which continues after the
            switch; `BreakLoop()` or `Exit()`. Keys compare as in a dict, so `1` and `True` are one key.
        otherwise: The case for any other key, or if the named value is missing. By default another key
            is an `InvalidOutputError`, and a missing value a `MissingValueError`.
        description: The purpose of the agent, in one sentence for other agents.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it.
    """
    pairs = as_tuple(cases.items() if isinstance(cases, Mapping) else cases)
    are_pairs = all(isinstance(each, tuple) and len(each) == 2 for each in pairs)
    return SwitchAgent(
        name=name,
        choose=choose,
        cases=pairs if are_pairs else (),
        otherwise=otherwise,
        description=description,
        limits=limits,
        faults=() if are_pairs else (f"cases={shown(cases)} {_NO_CASES}",),
    )


@hints_options
def each(
    name: str,
    agent: Agent,
    over: Source,
    *,
    description: str = "",
    as_: str = "item",
    key: KeyFunction | None = None,
    input: InputText | None = None,
    max_concurrency: int | None = None,
    on_error: Literal["fail", "wait", "collect", "first"] = "fail",
    output_key: str | None = None,
    errors_key: str | None = None,
    output_mode: Literal["full", "last", "none"] | None = None,
    limits: Limits | None = None,
) -> EachAgent:
    """Make an agent that runs one agent for each of several items, known only at run time.

    Each item runs in isolation, with the item as the value `as_` and as `ctx.item`. The address of an
    item has its number and its key: `files/read(7:f07)`; answers to questions may leave out the key. An
    Exit or a BreakLoop of an item takes effect when all items have ended.

    >>> from agentgraph.testing import transcript
    >>> measure = function_agent("measure", lambda ctx: f"{ctx.item.value}: {len(ctx.item.value)}")
    >>> runner = Runner(each("words", measure, "words", max_concurrency=1, output_key="sizes"))
    >>> transcript(runner.run("Go.", thread_id="1", values={"words": ["bee", "hive"]}))
    ['words/measure: bee: 3', 'words/measure: hive: 4']
    >>> runner.thread("1").values["sizes"]
    ['bee: 3', 'hive: 4']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        agent: The agent that runs for each item, of any kind.
        over: The name of a value that holds a list, a tuple or a mapping, or a function of a context,
            sync or async, that returns one; it may be empty. It is evaluated when the `each` starts,
            and the items are saved: a resume continues with these. The items of a mapping are its
            values, and their keys its keys.
        description: The purpose of the agent, in one sentence for other agents.
        as_: The name of the value that is the item, visible only to the run of this item.
        key: A function, sync or async, from an item to its key, a text or a whole number; the keys of
            all items must differ.
        input: The agent's request: a template, as in `step`, or a function of a context, sync or
            async, with `ctx.item` that returns a text. The agent sees only that. Without `input` it
            sees the history before the `each`.
        max_concurrency: Maximum number of items that run at once; by default 32.
        on_error: The effect of an item that fails, as in `parallel`. With "collect" its result is None,
            and its error is in `errors_key`; with "first" the first result is that of the whole.
        output_key: The value that holds the results in the order of the items: a list, or with keys a
            mapping; with "first" only the winner's result. The result of an item is the value of the
            `output_key` that the agent wrote last; or else, if it ended with an answer that fits an
            `output_schema`, that answer as plain data; or else the text of its last message. The
            agent's own output keys are local to each item.
        errors_key: The value that holds the errors of items by key, or else by number; empty if no item
            failed.
        output_mode: The messages of each item that join the history: "full" for all, "last" for the
            last, or "none"; by default "none" with an `output_key`, or else "full". Events include all.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it. A run raises `MissingValueError` for a missing value, and
        `InvalidOutputError` for an invalid type of `over`, and for keys that are invalid or equal.
    """
    return EachAgent(**locals())


def as_tuple(value: object) -> tuple[Any, ...]:
    """Convert an iterable to a tuple; a single value, such as a string or a tool, to a tuple of one."""
    if isinstance(value, list | tuple):
        return tuple(value)
    is_one = isinstance(value, str | Mapping | BaseModel) or is_tool(value)  # pydantic yields fields
    return tuple(value) if isinstance(value, Iterable) and not is_one else (value,)


@hints_options
def with_helpers(
    main: Agent,
    helpers: Iterable[Agent],
    *,
    description: str = "",
    limits: Limits | None = None,
) -> SequentialAgent:
    """Make an agent that runs helpers at the same time, and then the main agent.

    The main agent sees the helpers' messages, in declared order, and the values that they
    wrote. For a main agent `writer` this is `sequential("writer_with_helpers", [parallel(
    "writer_helpers", helpers), writer])`, and so are the run paths: `writer_with_helpers/
    writer_helpers/facts`, then `writer_with_helpers/writer_helpers/writer`.

    >>> facts = function_agent("facts", lambda ctx: "Bees hum.")
    >>> writer = function_agent("writer", lambda ctx: f"A text on: {ctx.messages[-1].text}")
    >>> [event.text for event in Runner(with_helpers(writer, [facts])).query("Go.")]
    ['Bees hum.', 'A text on: [facts] said: Bees hum.']

    Args:
        main: The agent that answers.
        helpers: The agents that run before it; at least one. If one fails, the whole agent fails.
        description: The purpose of the whole, in one sentence for other agents; by default the
            description of the main agent.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it.
    """
    name = getattr(main, "name", main)
    inner = [parallel(f"{name}_helpers", as_tuple(helpers)), main]
    about = description or getattr(main, "description", "")
    return sequential(f"{name}_with_helpers", inner, description=about, limits=limits)
