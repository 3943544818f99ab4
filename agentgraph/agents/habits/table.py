"""Names that newcomers from other libraries type, each with the name to write instead.

An entry answers a natural mistake of a user of LangChain, LangGraph, google-adk, Eino, openai-agents or
CrewAI. It ends an error, after `where: what is wrong; `.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

Hints: TypeAlias = Mapping[str, str]
"""The advice by the typed name."""


def _all(names: Iterable[str] | str, hint: str) -> dict[str, str]:
    return dict.fromkeys(names.split() if isinstance(names, str) else names, hint)


_INSTRUCTION = "use instruction="
_SUB_AGENTS = "use sub_agents=[...]"
_MODEL = 'pass a configured LangChain model as model=: init_chat_model("openai:gpt-5", temperature=0)'
_MIDDLEWARE = "use middleware=[...] (LangChain's); callbacks go into config= of a run"
_LIMITS = (
    "use limits=ag.Limits(model_calls=..., steps=...); a loop or chat agent also takes max_iterations="
)
_INPUT = "pass it as the first argument"
_AS_NAME = 'pass the name: ag.TransferTo("writer")'

ANY: Hints = {
    **_all(
        "state_schema state",
        "declare values with ag.Runner(tree, values=State) or ag.compile_agent(tree, values=State)",
    ),
    **_all(
        "checkpointer store context_schema cache memory saver",
        "pass it to ag.Runner(tree, ...) or ag.compile_agent(tree, ...)",
    ),
    **_all(
        "interrupt_before interrupt_after interrupt_on human_input",
        "use approve=[tool names] or approve={...} (LangChain's interrupt_on); to stop before an "
        "agent, put ag.human(...) in front of it",
    ),
    **_all("max_turns recursion_limit max_steps max_iter max_llm_calls", _LIMITS),
    **_all("verbose debug", 'leave it out; ag.watch(runner, "Go.") shows what agents do as they do it'),
}
"""Options of no function here, whichever was called."""

_EACH_AGENT = {
    **_all("retry_policy max_retries max_retry_limit", "use retry=, LangGraph's RetryPolicy"),
    **_all("handoff_description", "use description="),
}
_CHAT: Hints = {
    **_EACH_AGENT,
    **_all("approval_timeout interrupt_timeout", "use approve_timeout=, in seconds or as a timedelta"),
    **_all(
        "prompt system_prompt instructions system system_message global_instruction "
        "state_modifier messages_modifier",
        _INSTRUCTION,
    ),
    **_all(
        "response_format output_type response_model response_schema output_pydantic output_json",
        "use output_schema=, which accepts the same types",
    ),
    **_all(
        "handoffs subagents agents workers children",
        "use sub_agents=[...]; ag.handoff(agent, name=...) names the tool",
    ),
    **_all(
        "llm temperature model_settings model_kwargs model_name model_client model_provider "
        "generate_content_config max_tokens top_p api_key base_url tool_choice",
        _MODEL,
    ),
    **_all("role goal backstory", "write them into instruction="),
    **_all(
        "pre_model_hook post_model_hook before_model_callback after_model_callback "
        "before_tool_callback after_tool_callback before_agent_callback after_agent_callback "
        "callbacks hooks input_guardrails output_guardrails guardrails",
        _MIDDLEWARE,
    ),
    **_all("parallel_tool_calls", "use parallel_tools="),
    **_all("stream streaming", "leave it out; run(..., stream=True) streams the replies of all agents"),
    **_all("tool_use_behavior return_direct", "use return_directly=[tool names]"),
    **_all("include_contents", 'use history="input" or history="own"'),
    **_all("disallow_transfer_to_peers", "use peers=; sub-agents transfer to each other only with it"),
    **_all("disallow_transfer_to_parent", "use sub_agents_return=True: they have no tool to go back"),
    **_all("allow_delegation", _SUB_AGENTS),
    **_all("mcp_servers", "pass their tools as tools=; langchain-mcp-adapters loads them"),
    **_all("input_schema", "make a tool of the agent: ag.agent_tool(agent, args_schema=...)"),
}
_COMPOSITE: Hints = {
    **_all(
        "model llm tools instruction prompt", "pass it to the agents in sub_agents=; it has no model"
    ),
    **_all("agents steps nodes children tasks subagents", "use sub_agents="),
    **_all("max_workers n_jobs", "use max_concurrency="),
}
_LOOP: Hints = {
    **_COMPOSITE,
    **_all("max_loops max_rounds max_round times iterations", "use max_iterations="),
    **_all(
        "condition exit_condition stop_condition termination_condition stop_when break_when",
        "use until=, a function of a Context",
    ),
}
_SWARM: Hints = {
    **_all("default_active_agent starting_agent entry_point", 'use start="name"'),
    **_all("sub_agents", "pass them as the second argument, agents"),
}
_STEP: Hints = {
    **_all("after deps dependencies needs requires", "use depends_on=[names]"),
    **_all("condition run_if", "use when=, a value's name or a function of a Context"),
}
_TIMES: Hints = {
    **_all("deadline expires expires_in ttl", "use timeout=, in seconds or as a timedelta"),
    **_all("default_answer on_timeout fallback", "use default=, the answer after the timeout"),
}
_HUMAN: Hints = {
    **_TIMES,
    **_all("question message text", "pass it as the second argument, prompt"),
    **_all("schema", "use response_schema="),
    **_all("options choices", 'use response_schema={"enum": [...]}'),
}
_ASK: Hints = {
    **_TIMES,
    **_all("schema", "use response_schema="),
    **_all("question prompt message", "pass it as the first argument, value"),
    **_all("options choices", 'use response_schema={"enum": [...]}'),
}
_HANDOFF: Hints = {
    **_all("tool_name tool_name_override", "use name="),
    **_all("tool_description tool_description_override", "use description="),
    **_all("input_type", "use args_schema="),
    **_all("input_filter", 'use context="last", or history= of the agent'),
    **_all("agent_name", "pass the agent as the first argument, not its name"),
}
_RUN: Hints = {
    **_all("session_id conversation_id thread", "use thread_id="),
    **_all("session", "use thread_id=, and checkpointer= of the runner"),
    **_all("user_id", 'use thread_id=; a user belongs into config={"metadata": {"user_id": ...}}'),
    **_all("new_message message input user_input prompt query task", _INPUT),
    **_all("inputs", f"{_INPUT}, and what templates name as values={{...}}"),
    **_all("state state_delta variables context_variables", "use values="),
    **_all("stream_mode streaming", "use stream=True"),
    **_all("callbacks", 'use config={"callbacks": [...]}'),
    **_all("metadata tags run_name configurable", "use config={...: ...}, LangGraph's config"),
    **_all("run_config", "use config=, and limits=ag.Limits(...)"),
    **_all("command resume", "use resume(thread_id, answer)"),
    **_all("starting_agent agent", 'create a runner first: ag.Runner(agent).run("x")'),
    **_all("interrupt_before interrupt_after", "put ag.human(...) in front of the agent in the tree"),
    **_all("subgraphs", "leave it out; events of all agents are yielded"),
    **_all("checkpointer store context_schema cache", "pass it to ag.Runner(tree, ...)"),
}
_INVOKED = _all("stream stream_mode streaming", "use run(..., stream=True), which yields the events")
_RESUME: Hints = {
    **_all(
        "answer resume value decision decisions reply response",
        "pass it as the second argument, answers",
    ),
    **_all(
        "messages message input new_message", "use run(...) for a new turn, steer(...) for more input"
    ),
    **_all("interrupt_id question_id", "pass answers={id: answer}"),
}
_RUNNER: Hints = {
    **_all("saver db database session_service memory session", 'use checkpointer="runs.db"'),
    **_all("app_name", 'leave it out; with checkpointer="runs.db" a file stores the threads'),
    **_all("memory_service", "use store=, LangGraph's store"),
    **_all("state_schema state", "use values="),
    **_all("callbacks", 'use config={"callbacks": [...]}'),
    **_all(
        "max_turns recursion_limit max_steps max_llm_calls", "use limits=ag.Limits(model_calls=...)"
    ),
    **_all("hooks plugins", "use middleware=[...] (LangChain's)"),
    **_all("root_agent starting_agent tree", "pass it as the first argument, agent"),
}

_COMPILED: Hints = {
    **_all("state_schema state", "use values=State; the messages are there without it"),
    **_all("config_schema", "use context_schema="),
    **_all("input_schema input output_schema output", "leave it out; it takes messages and values"),
    **_all(
        "recursion_limit max_turns max_steps max_llm_calls", "use limits=ag.Limits(model_calls=...)"
    ),
    **_all(
        "thread_id config callbacks tags configurable",
        'pass it to the graph: graph.invoke(..., config={"configurable": {"thread_id": ...}})',
    ),
    **_all("context", "pass it to the graph: graph.invoke(..., context=...)"),
    **_all("stream_mode stream", 'pass it to the graph: graph.stream(..., stream_mode="updates")'),
    **_all("allow renames max_running", "use ag.Runner(tree, ...), which has it"),
    **_all("saver memory db database", "use checkpointer=, a saver of LangGraph's"),
}

OPTIONS: Mapping[str, Hints] = {
    "compile_agent()": _COMPILED,
    "chat_agent()": _CHAT,
    "supervisor()": {
        **_CHAT,
        **_all("agents sub_agents subagents handoffs", "pass them as the third argument, workers"),
        **_all("supervisor_name", "pass it as the first argument, name"),
        **_all("add_handoff_messages add_handoff_back_messages", 'leave it out; use mode="handoff"'),
    },
    "function_agent()": {
        **_EACH_AGENT,
        **_all("func function handler callable run", "pass it as the second argument, fn"),
        **_all("sub_agents", "use agents=[...], which the function runs by ctx.run(name, request)"),
    },
    "graph_agent()": {
        **_EACH_AGENT,
        **_all("runnable agent app", "pass it as the second argument, graph"),
    },
    "agent_tool()": {
        **_all("name tool_name", "leave it out; the tool has the agent's name"),
        **_all("tool_description", "use description="),
        **_all("custom_output_extractor", "use output=, a function of a Reply"),
        **_all("is_enabled", "use enabled="),
        **_all("input_schema parameters", "use args_schema="),
    },
    "handoff()": _HANDOFF,
    "human()": _HUMAN,
    "sequential()": _COMPOSITE,
    "parallel()": _COMPOSITE,
    "loop()": _LOOP,
    "workflow()": _all("agents nodes tasks sub_agents", "pass them as the second argument, steps"),
    "step()": _STEP,
    "swarm()": _SWARM,
    "switch()": {
        **_all("default", "use otherwise="),
        **_all("condition router path key on", "pass it as the second argument, choose"),
        **_all("routes branches path_map agents", "pass them as the third argument, cases"),
    },
    "each()": {
        **_all("items", "pass them as the third argument, over"),
        **_all("sub_agents agents", "pass one agent as the second argument, agent"),
        **_all("max_workers", "use max_concurrency="),
        **_all("return_exceptions", 'use on_error="collect"'),
    },
    "Limits()": {
        **_all("max_tokens total_tokens", "use tokens="),
        **_all("max_cost usd max_usd budget max_budget", "use cost=, and prices= of the Runner"),
        **_all("max_turns max_llm_calls max_model_calls request_limit", "use model_calls="),
        **_all("max_steps recursion_limit max_iterations", "use steps="),
        **_all("timeout max_seconds max_time", "use seconds="),
        **_all("max_transfers max_handoffs handoffs", "use transfers="),
    },
    "Ask()": _ASK,
    "Custom()": _all("text payload value event name", "pass it as the first argument, data"),
    "TransferTo()": _all("agent name to target goto", _AS_NAME),
    "Runner()": _RUNNER,
    "Runner.invoke()": _INVOKED,
    "Runner.ainvoke()": _INVOKED,
    "Runner.resume()": _RESUME,
    "Runner.aresume()": _RESUME,
    "Runner.rewind()": _all("address to checkpoint_id", "pass it as the second argument, at"),
    "Runner.arewind()": _all("address to checkpoint_id", "pass it as the second argument, at"),
    "Runner.*()": _RUN,
}
"""Options that do not exist, by what is called; `Runner.*()` is any method of a runner.

The class of an agent has those of its builder."""

_AS_INVOKED = 'write runner.invoke("x", thread_id="monday", values={...}, config={...})'

USAGES: Hints = {
    "sequential()": 'write ag.sequential("s", [a, b])',
    "parallel()": 'write ag.parallel("p", [a, b])',
    "loop()": 'write ag.loop("l", [a], max_iterations=...)',
    "workflow()": 'write ag.workflow("w", [a, ag.step(b, depends_on=["a"])])',
    "swarm()": 'write ag.swarm("s", [a, b], start="a")',
    "switch()": 'write ag.switch("s", choose, {"key": a}, otherwise=b)',
    "each()": 'write ag.each("e", a, "name of a value")',
    "chat_agent()": 'write ag.chat_agent("name", model, tools=[...])',
    "supervisor()": 'write ag.supervisor("name", model, [a, b])',
    "function_agent()": 'write ag.function_agent("name", fn)',
    "graph_agent()": 'write ag.graph_agent("name", graph)',
    "human()": 'write ag.human("name", "Print it?")',
    "step()": 'write ag.step(agent, depends_on=["a"])',
    "agent_tool()": 'write ag.agent_tool(agent, description="...")',
    "agent()": 'write @ag.agent, or @ag.agent(name="writer")',
    "validated()": "write ag.validated(agent, check)",
    "Ask()": 'write ag.Ask("Print it?")',
    "Custom()": "write ag.Custom(data)",
    "Limits()": "write ag.Limits(model_calls=...)",
    "Exit()": "yield the text, then ag.Exit()",
    "BreakLoop()": "yield the text, then ag.BreakLoop()",
    "SetValues()": "write ag.SetValues(a=1)",
    "TransferTo()": 'write ag.TransferTo("writer")',
    "compile_agent()": "write ag.compile_agent(tree, checkpointer=...)",
    "Runner()": 'write ag.Runner(tree, checkpointer="runs.db")',
    "Runner.run()": 'write ag.Runner(agent).run("x")',
    "Runner.arun()": 'write ag.Runner(agent).arun("x")',
    "Runner.invoke()": _AS_INVOKED,
    "Runner.ainvoke()": _AS_INVOKED,
    "Runner.query()": 'write runner.query("x", thread_id="monday")',
    "Runner.aquery()": 'write runner.aquery("x", thread_id="monday")',
    "Runner.start()": 'write runner.start("x", thread_id="monday")',
    "Runner.resume()": "write runner.resume(thread_id, answer)",
    "Runner.aresume()": "write runner.aresume(thread_id, answer)",
}
"""How to call what was called with too many arguments or too few."""

_CHAT_AGENT = (
    "use ag.chat_agent(name, model, tools=[...]); a graph from create_agent(...) goes into "
    "ag.graph_agent(name, graph)"
)
_FILE = 'use ag.Runner(tree, checkpointer="runs.db"); without one, threads are in memory'
_GRAPH = (
    "use ag.sequential(...), ag.loop(...), ...; your own graph goes into ag.graph_agent(name, graph)"
)
_TOOL = "pass the function itself in tools=[...], or a tool of LangChain's"
_GROUP = 'use ag.loop("talk", [a, b], max_iterations=...), ag.swarm(...) or ag.supervisor(...)'
_CREW = 'use ag.sequential("crew", [a, b]), ag.supervisor(...) or ag.workflow(...)'
_EVENTS = "use run(...) or arun(...), stream=True adds chunks"
_RUN_FIRST = 'create a runner first: ag.Runner(agent).run("x")'
_INVOKE = "use ag.Runner(agent).invoke(...), or ag.compile_agent(agent).invoke({...})"
_OF_THREAD = "use runner.thread(result.thread_id).messages"
_SET = "return ag.SetValues(name=...)"

_EVENTS_OF_RUN: Hints = {
    **_all("text message", "use invoke(...).text, or read the events of the run"),
    **_all("output", "use invoke(...).output"),
    **_all("values state", "use invoke(...).values"),
    **_all("pending interrupts", "use invoke(...).pending, or pending(thread_id) of the runner"),
    **_all("status", "use invoke(...).status, or thread(thread_id).status of the runner"),
    **_all("final_output result", "use invoke(...).text, or invoke(...).output"),
    **_all("events stream_events stream", "iterate over the run: for event in run"),
}

_BUILT = "agents do not change; build a tree with all of them, then ag.Runner(tree)"
_TOKENS = "use usage, which counts tokens"
_DRAWN = "print(agent) shows a tree, ag.compile_agent(agent).get_graph() its graph"
_LANGCHAIN = "import it from langchain_core.messages"

NAMES: Mapping[str, Hints] = {
    "module": {
        **_all(
            "LlmAgent create_react_agent create_agent ReactAgent ChatModelAgent AssistantAgent "
            "ConversableAgent OpenAIAgent create_deep_agent BaseAgent LLMAgent",
            _CHAT_AGENT,
        ),
        **_all("create_supervisor Supervisor", "use ag.supervisor(name, model, workers)"),
        **_all("create_swarm Swarm", "use ag.swarm(name, agents, start=...)"),
        **_all("create_handoff_tool transfer_to_agent", "use ag.handoff(agent)"),
        **_all("interrupt", "return ag.Ask(value)"),
        **_all("Command", "use ag.TransferTo(name), ag.SetValues(...)"),
        **_all("Send", "use ag.each(...)"),
        **_all("StateGraph MessageGraph MessagesState START END Graph", _GRAPH),
        **_all("tool Tool function_tool FunctionTool StructuredTool BaseTool", _TOOL),
        **_all(
            "InMemorySaver MemorySaver SqliteSaver AsyncSqliteSaver PostgresSaver InMemoryRunner "
            "InMemorySessionService DatabaseSessionService Session SQLiteSession",
            _FILE,
        ),
        **_all("Crew Task Process", _CREW),
        **_all("GroupChat RoundRobinGroupChat SelectorGroupChat", _GROUP),
        **_all("RunConfig", "use config= of a run, and limits=ag.Limits(...)"),
        **_all("ModelSettings ChatOpenAI init_chat_model LiteLlm", _MODEL),
        **_all("Event", "use ag.AgentEvent"),
        **_all(
            "ToolContext RunContextWrapper CallbackContext InvocationContext RunContext",
            "use ag.Context",
        ),
        **_all(
            "HumanInTheLoopMiddleware human_in_the_loop", "use approve=[tool names] of ag.chat_agent"
        ),
        **_all("exit_loop", "use break_tool=True of ag.chat_agent, or return ag.BreakLoop()"),
        **_all("Router Branch Condition", "use ag.switch(name, choose, {key: agent})"),
        **_all("Sequential SequentialChain Chain Pipeline", 'use ag.sequential("name", [a, b])'),
        **_all("Parallel RunnableParallel", 'use ag.parallel("name", [a, b])'),
        **_all("Loop", 'use ag.loop("name", [a], max_iterations=...)'),
        **_all("Workflow", 'use ag.workflow("name", [a, ag.step(b, depends_on=["a"])])'),
        **_all("Human UserProxyAgent human_input ask_human", 'use ag.human("name", "Print it?")'),
        **_all(
            "guardrail output_guardrail input_guardrail Guardrail", "use ag.validated(agent, check)"
        ),
        **_all("HumanMessage AIMessage SystemMessage ToolMessage Message", _LANGCHAIN),
        **_all("RetryPolicy CachePolicy TimeoutPolicy", "import it from langgraph.types"),
        **_all("from_yaml load_agent", 'use ag.load("report.yaml")'),
        **_all("draw visualize plot draw_graph draw_mermaid", _DRAWN),
        **_all("function node task entrypoint", "use @ag.agent"),
        **_all("run invoke run_sync", "use ag.Runner(agent).invoke(...)"),
        **_all("stream astream", 'use ag.Runner(agent).run("x", stream=True)'),
    },
    "Runner": {
        **_all("stream astream run_streamed stream_events astream_events run_live", _EVENTS),
        **_all("run_async kickoff_async", "use arun(...), or ainvoke(...)"),
        **_all("run_sync kickoff call execute", "use invoke(...)"),
        **_all("get_state aget_state state", "use thread(id)"),
        **_all("get_state_history aget_state_history history", "use visits(id)"),
        **_all("update_state aupdate_state", "use rewind(id, address, values=...)"),
        **_all("get_graph", "use graph.get_graph()"),
        **_all("cancel abort", "use stop(id)"),
        **_all("batch abatch map", "use ag.each(...) in the tree"),
        **_all("approve reject", "use resume(id, answer), or answer(id, answer)"),
        **_all("ask send chat", "use invoke(...)"),
        **_all("with_config", "pass config= to ag.Runner(tree, ...) or to a run"),
        **_all("checkpointer", "use saver"),
        **_all("fork branch", "use copy(id, to, at=...), or fork_many(...)"),
        **_all("replay", "use events(id)"),
        **_all("usage tokens token_usage", "use thread(id).usage, or invoke(...).usage"),
        **_all("list_threads get_threads", "use threads()"),
        **_all("delete_thread adelete_thread", "use delete(id)"),
        **_all("messages get_messages", "use thread(id).messages"),
        **_all(
            "session_service create_session get_session list_sessions sessions",
            "use thread_id= of a run, and threads()",
        ),
        **_all("as_tool", "use ag.agent_tool(agent)"),
        **_all("values", "use thread(id).values, or invoke(...).values"),
        **_all("agents tree root_agent root name", "use agent"),
        **_all("compile", "use graph, which is compiled"),
        **_all("text output result", "use invoke(...), which returns the result"),
        **_all("add_agent add_node register add_edge", _BUILT),
        **_all("draw_mermaid draw_mermaid_png visualize draw plot", _DRAWN),
        **_all(
            "continue_run send_message reply", "use resume(id, answer), or invoke(..., thread_id=id)"
        ),
    },
    "agent": {
        **_all("add_tool add_tools register_tool add_sub_agent add_agent add_node add_edge", _BUILT),
        **_all("append extend add_handoff set_entry_point", _BUILT),
        **_all("with_name with_config with_options bind", "use dataclasses.replace(agent, name=...)"),
        **_all("then pipe", 'use ag.sequential("name", [a, b])'),
        **_all("draw_mermaid draw_mermaid_png visualize draw plot", _DRAWN),
        **_all("engine saver", _RUN_FIRST),
        **_all("invoke ainvoke run arun run_sync run_async query kickoff call", _INVOKE),
        **_all("stream astream run_streamed", 'use ag.Runner(agent).run("x", stream=True)'),
        **_all("as_tool", "use ag.agent_tool(agent)"),
        **_all("compile", "use ag.compile_agent(agent)"),
        **_all("get_graph", "use ag.compile_agent(agent).get_graph()"),
        **_all("clone copy", "use dataclasses.replace(agent, name=...)"),
        **_all("bind_tools", "use tools= of ag.chat_agent"),
        **_all("handoffs agents subagents", "use sub_agents"),
        **_all("prompt system_prompt instructions", "use instruction"),
    },
    "Result": {
        **_all("final_output data", "use text or output"),
        **_all("content response raw answer", "use text"),
        **_all("messages to_input_list", _OF_THREAD),
        **_all("interrupts interrupt questions", "use pending"),
        **_all("state get", "use values"),
        **_all("new_items items steps", "use events"),
        **_all("structured_response pydantic parsed", "use output"),
        **_all("last_message final_message", "use message"),
        **_all("token_usage tokens usage_metadata", _TOKENS),
        **_all("cost price total_cost", "use spent.cost, with prices= of the Runner"),
    },
    "Thread": {
        **_all("state get", "use values"),
        **_all("next tasks", "use status and pending"),
        **_all("interrupts interrupt questions", "use pending"),
        **_all("history events", "use messages, or runner.events(thread_id)"),
        **_all("config metadata created_at updated", "use runner.threads(), which lists the times"),
        **_all("token_usage tokens usage_metadata", _TOKENS),
        **_all("cost price total_cost", "use spent.cost, with prices= of the Runner"),
    },
    "Run": _EVENTS_OF_RUN,
    "AsyncRun": _EVENTS_OF_RUN,
    "graph": {
        **_all(
            "run arun query kickoff run_sync run_async",
            "use ag.Runner(tree).run(...), or invoke({...})",
        ),
        **_all("compile", "use it as it is; it is compiled"),
    },
    "AgentEvent": {
        **_all("content", "use text or message"),
        **_all("author agent sender source", "use agent_name"),
        **_all("actions", "use action"),
        **_all("type event name event_type", "use kind"),
        **_all("is_final_response", "the last text is invoke(...).text"),
        **_all("data custom", "use output.custom"),
        **_all("delta chunk", "use text, where partial is true"),
        **_all("node path", "use address"),
        **_all("timestamp", "use time"),
        **_all("tool_calls get_function_calls", "use message.tool_calls"),
        **_all("usage_metadata", "use usage"),
        **_all("interrupt question", "use action.interrupted"),
        **_all("is_partial", "use partial"),
    },
    "Context": {
        **_all("state session variables", "use ctx.values"),
        **_all("input user_content user_input message", "use ctx.messages[-1].text"),
        **_all("history", "use ctx.messages"),
        **_all("thread_id session_id", 'use ctx.config["configurable"]["thread_id"]'),
        **_all("interrupt ask", "return ag.Ask(value)"),
        **_all("set update write set_values update_state set_state", _SET),
        **_all("get", "use ctx.values.get(name)"),
        **_all("agent agent_name", "use ctx.name"),
        **_all(
            "actions transfer_to escalate goto",
            "return ag.TransferTo(name), ag.BreakLoop() or ag.Exit()",
        ),
        **_all("emit send write_custom", "yield a text, or ag.Custom(data)"),
        **_all("call run_agent invoke", "use ctx.run(name, request)"),
        **_all("memory", "use ctx.store"),
    },
    "Reply": _all(
        "text content output final_output", "the reply is the text itself; its data is in data"
    ),
}
"""Names that do not exist, by the class of the object, or "module" for `ag.X`."""

KEYS: Mapping[str, Hints] = {
    "AgentEvent": {
        **{name: f"use event.{name}" for name in ("text", "message", "output", "error", "action")},
        "content": "use event.text",
        "messages": "use event.message",
        "": "use its attributes, or to_dict()[{key}]",
    },
    "Result": {
        "messages": _OF_THREAD,
        "__interrupt__": "use pending",
        "structured_response": "use output",
        "values": "use values",
        "": "use values[{key}]",
    },
    "Context": {
        "messages": "use ctx.messages",
        "values": "use ctx.values",
        "": "use ctx.values[{key}]",
    },
}
"""Keys of what has none, by class; "" for any other key."""

_NOT_ASYNC = "a Run is not async; use `async with` and `async for` with arun(...)"
_NOT_SYNC = "an AsyncRun is async; use `async with`, or run(...)"
_NO_OPERATOR = 'agents have no operators; write ag.sequential("name", [a, b]), or ag.parallel(...)'
_NO_LIST = "a run is not a list; use query(...), which returns the list of its events"

REFUSED: Mapping[str, Hints] = {
    "Run": {
        "__await__": "a Run cannot be awaited; use arun(...), or await ainvoke(...)",
        **_all("__aiter__ __aenter__ __aexit__", _NOT_ASYNC),
        "__getitem__": _NO_LIST,
    },
    "AsyncRun": {
        "__iter__": "an AsyncRun is not iterable; use async for, or run(...)",
        **_all("__enter__ __exit__", _NOT_SYNC),
        "__getitem__": _NO_LIST,
    },
    "Result": {"__await__": "a Result cannot be awaited; use await ainvoke(...)"},
    "agent": _all("__or__ __rshift__ __add__", _NO_OPERATOR),
}
"""Special methods that do not exist, by class, with the whole text of the error."""
