"""`langgraph dev` serves a project of `agentgraph new`, as it is, with the variables of its `.env`."""

import subprocess

from helpers.commands import Commands
from helpers.openai_server import OpenAIServer
from helpers.pages import free_port
from langgraph_sdk import get_sync_client
from server_process import command_of, surroundings, wait_for_server


def test_a_new_project_runs_on_a_server_with_the_key_of_its_env_file(
    command: Commands, openai_server: OpenAIServer
) -> None:
    openai_server.script = ["Bees hum.", "Too short."] * 3
    assert command("new", "haiku").code == 0
    folder, port = command.folder / "haiku", free_port()
    (folder / ".env").write_text(f"OPENAI_API_KEY=test\nOPENAI_BASE_URL={openai_server.base_url}\n")
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command_of(port), cwd=folder, env=surroundings(), stdout=log, stderr=log
        )
        try:
            wait_for_server(server, url, folder / "log")
            with get_sync_client(url=url) as client:
                thread = client.threads.create()["thread_id"]
                given = {"messages": [{"role": "user", "content": "bees"}]}
                ended = client.runs.wait(thread, "haiku", input=given)
        finally:
            server.terminate()
            server.wait(30)
    assert ended["values"]["text"] == "Bees hum."
    assert len(openai_server.requests) == 6
