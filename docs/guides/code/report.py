import agentgraph as ag


@ag.agent
def writer(ctx: ag.Context) -> str:
    return f"Draft {ctx.iteration + 1} about {ctx.messages[0].text}."


@ag.agent
def critic(ctx: ag.Context) -> str | ag.BreakLoop:
    return ag.BreakLoop() if ctx.iteration == 1 else "Too short."


@ag.agent
def printer(ctx: ag.Context) -> str:
    return "Printed." if ctx.values["answer"] == "yes" else "Not printed."


refine = ag.loop("refine", [writer, critic], max_iterations=5)
choice = {"enum": ["yes", "no"]}
boss = ag.human("boss", "Print it?", response_schema=choice, output_key="answer")
report = ag.sequential("report", [refine, boss, printer])
graph = ag.compile_agent(report)  # without a saver: a server has its own
