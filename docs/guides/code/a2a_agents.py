from collections.abc import AsyncIterator

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_artifact_text, get_data_parts, new_text_message
from a2a.types import Role, SendMessageRequest, Task, TaskState

import agentgraph as ag


async def send(url: str, text: str, context_id: str | None = None, task_id: str | None = None) -> Task:
    """Send a message to an A2A agent, and return its task: a new one, or that which waits for it."""
    message = new_text_message(text, None, context_id, task_id, Role.ROLE_USER)
    async with httpx.AsyncClient(timeout=None) as http:  # the default is 5 seconds
        client = await create_client(url, ClientConfig(streaming=False, httpx_client=http))
        replies = client.send_message(SendMessageRequest(message=message))
        return [reply.task async for reply in replies][-1]


def a2a_agent(name: str, url: str) -> ag.Agent:
    """Return an agent that sends what was said last to an A2A agent, and asks what that one asks."""

    async def call(ctx: ag.Context) -> AsyncIterator[str | ag.Ask | ag.SetValues]:
        if ctx.answered:
            task = await send(url, ctx.answer, *ctx.values[name])
        else:
            task = await send(url, ctx.messages[-1].text)
        match task.status.state:
            case TaskState.TASK_STATE_COMPLETED:
                yield get_artifact_text(task.artifacts[-1])
            case TaskState.TASK_STATE_INPUT_REQUIRED:
                yield ag.SetValues(**{name: [task.context_id, task.id]})
                (question,) = get_data_parts(task.artifacts[-1].parts)
                yield ag.Ask(question["value"], question.get("response_schema"))
            case state:
                raise RuntimeError(f"{url} ended a task as {TaskState.Name(state)}")

    return ag.function_agent(name, call)
