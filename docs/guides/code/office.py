from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

import agentgraph as ag
from report import report

server = FastMCP("office")
runner = ag.Runner(report)


class Answer(BaseModel):
    answer: str


@server.tool(name="report")
async def write(topic: str, ctx: Context) -> str:
    """Write a report about a topic."""
    result = await runner.ainvoke(topic)
    while result.pending:
        asked = await ctx.elicit(result.pending[0].value, Answer)
        if asked.action != "accept":
            return "Nobody answered."
        answers = {result.pending[0].id: asked.data.answer}
        result = await runner.ainvoke(thread_id=result.thread_id, answers=answers)
    return result.text


if __name__ == "__main__":
    server.run()
