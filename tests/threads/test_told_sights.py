"""What is told of what activations saw, against what their models, functions and lanes got."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from helpers import says
from helpers.databases import Databases
from helpers.told import Team, Told, call, calls, search, seen
from langchain.agents.middleware import AgentMiddleware
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

POLICIES: list[Any] = [
    "shared",
    "path",
    "own",
    "last",
    "input",
    ag.trimmed(3, token_counter=len),
    ag.trimmed(40, history="last"),
]


@pytest.mark.parametrize("history", POLICIES, ids=lambda each: str(each)[:16])
def test_a_report_tells_what_each_call_of_a_model_got(told: Told, history: Any) -> None:
    team = Team()
    writer = team.chat(
        "writer",
        call("search", q="bees"),
        "Draft 1",
        "Draft 2",
        "Draft 3",
        call("search", id="2", q="ants"),
        "Draft 4",
        instruction="Write about {topic}. {by_critic?}",
        tools=[search],
        history=history,
    )
    critic = team.chat(
        "critic", "Too short", "Too long", "Odd", "Well", history=history, output_key="by_critic"
    )
    tree = ag.sequential("s", [says("x"), ag.loop("refine", [writer, critic], max_iterations=2)])
    told.of(tree).invoke("Go.", values={"topic": "bees"})
    told.invoke(["And", "again."], values={"topic": "ants"})
    assert len(team.models["writer"].inputs) == 6
    told.check_saw(team)


def test_lanes_see_what_came_before_them(told: Told) -> None:
    team = Team()
    left = team.chat("left", "L", output_key="l")
    right = ag.sequential("right", [team.chat("r1", "R1"), team.chat("r2", "R2", instruction="{l?}")])
    find = team.chat("find", "Found", output_key="found")
    told.of(
        ag.sequential(
            "s",
            [
                ag.parallel("p", [left, right]),
                ag.workflow(
                    "flow",
                    [
                        ag.step(find),
                        ag.step(team.chat("check", "Ok", instruction="{found}"), depends_on=["find"]),
                        ag.step(
                            team.chat("print", "Printed"),
                            depends_on=["check"],
                            input="Print ${results.find} for ${l}",
                        ),
                    ],
                ),
                team.chat("last", "Bye", history="path"),
            ],
        )
    ).invoke("Go.")
    assert [each.text for each in team.models["print"].inputs[0]] == ["Print Found for L"]
    told.check_saw(team)


def test_items_see_their_inputs(told: Told) -> None:
    team = Team()
    worker = team.chat("work", lambda sent: sent[-1].text.upper(), "B", instruction="{word}")
    job = ag.each("job", worker, "words", as_="word", input="Do {word}", max_concurrency=1)
    told.of(job).invoke("Go.", values={"words": {"k": "one", "l": "two"}})
    told_of = told("job/work(0:k)")
    assert seen(told_of.saw) == seen(team.models["work"].inputs[0])
    assert [each.text for each in told("job/work(1)").saw] == ["two", "Do two"]
    assert told_of.values_before["word"] == "one"
    assert [each.text for each in told_of.said] == ["DO ONE"]


def test_an_input_made_by_a_function_cannot_be_told(told: Told) -> None:
    team = Team()
    job = ag.each("job", team.chat("work", "A"), "words", as_="word", input=lambda ctx: "Do it")
    told.of(job).invoke("Go.", values={"words": ["one"]})
    report = told("job/work(0)")
    assert "input= is a function" in report.remarks[0]
    assert "Do it" not in [each.text for each in report.saw]


@pytest.mark.parametrize("history", ["input", "shared"])
@pytest.mark.parametrize("parallel_tools", [True, False])
def test_agents_as_tools_see_their_requests(told: Told, history: Any, parallel_tools: bool) -> None:
    class Topic(BaseModel):
        topic: str

    team = Team()
    helper = team.chat("helper", "Helped", "Once more", output_key="help")
    expert = team.chat("expert", "Well", instruction="On {topic}, {help?}")
    boss = team.chat(
        "boss",
        calls(("helper", {"request": "Help!"}), ("expert", {"topic": "bees"})),
        call("helper", id="9", request="More!"),
        "Done",
        tools=[
            ag.agent_tool(helper, history=history),
            ag.agent_tool(expert, args_schema=Topic, history=history),
        ],
        parallel_tools=parallel_tools,
    )
    told.of(ag.sequential("s", [says("x"), boss])).invoke("Go.")
    told.check_saw(team)
    runs = told("s/boss").tools
    assert [(each.name, each.result, each.status) for each in runs] == [
        ("helper", "Helped", "done"),
        ("expert", "Well", "done"),
        ("helper", "Once more", "done"),
    ]
    assert all(each.began and each.ended and each.began <= each.ended for each in runs)


@pytest.mark.parametrize(
    ("mode", "output_mode"), [("tools", "full"), ("handoff", "full"), ("handoff", "last")]
)
def test_supervisors_and_workers(told: Told, mode: Any, output_mode: Any) -> None:
    team = Team()
    ann = team.chat("ann", call("search", q="bees"), "Bees.", tools=[search])
    bob = team.chat("bob", "Ants.")
    to = "transfer_to_{}" if mode == "handoff" else "{}"
    args = {} if mode == "handoff" else {"request": "Look"}
    team.models["boss"] = ScriptedChatModel(
        responses=[call(to.format("ann"), **args), call(to.format("bob"), id="2", **args), "Done."]
    )
    boss = ag.supervisor("boss", team.models["boss"], [ann, bob], mode=mode, output_mode=output_mode)
    told.of(boss).invoke("Go.")
    assert len(team.models["boss"].inputs) == 3
    told.check_saw(team)


def test_a_supervisor_is_reminded(told: Told) -> None:
    team = Team()
    several = [call("ann", id=str(n), request="Look") for n in range(3)]
    team.models["boss"] = ScriptedChatModel(responses=[*several, "Done."])
    told.of(ag.supervisor("boss", team.models["boss"], [says("ann", "Bees.")])).invoke("Go.")
    assert team.models["boss"].inputs[3][-1].type == "human"
    told.check_saw(team)


@pytest.mark.parametrize("parallel", [True, False])
def test_plans(told: Told, parallel: bool) -> None:
    team = Team()
    steps = [
        {"name": "x", "task": "Do x"},
        {"name": "y", "task": "Do y", "depends_on": ["x"]},
    ]
    plan = json.dumps({"steps": steps}) if parallel else '["x", "y"]'
    after = ["Done"] if parallel else ['{"steps": ["y"]}', "Done"]
    scripts = {"planner": [plan], "executor": ["X", "Y"], "replanner": after}
    for name, responses in scripts.items():
        team.models[name] = ScriptedChatModel(responses=responses)
    told.of(ag.plan_execute("pe", **team.models, parallel=parallel)).invoke("What is x?")
    assert len(team.models["executor"].inputs) == 2
    told.check_saw(team)


def test_swarms(told: Told) -> None:
    team = Team()
    ann = team.chat("ann", call("transfer_to_bob"), "Ann again", history="path")
    bob = team.chat("bob", call("transfer_to_ann", id="2"), history="own")
    told.of(ag.swarm("team", [ann, bob])).invoke("Go.")
    told.check_saw(team)
    assert told("team[0]/ann").signal == "transfer_to bob"
    report = told("team")
    assert (report.kind, report.status, len(report.said)) == ("swarm", "done", 1)


def test_agents_that_a_function_runs(told: Told) -> None:
    team = Team()
    ann, bob = team.chat("ann", "A", output_key="a"), team.chat("bob", "B", instruction="{a}")

    def flow(ctx: ag.Context) -> str:
        return str(ctx.run("ann", "First") + ctx.run("bob", "Then", key="k"))

    told.of(ag.function_agent("flow", flow, agents=[ann, bob])).invoke("Go.")
    told.check_saw(team)
    runs = told("flow").tools
    assert [(e.name, e.args, e.id, e.result, e.status) for e in runs] == [
        ("ann", {"request": "First"}, "0", "A", "done"),
        ("bob", {"request": "Then"}, "k", "B", "done"),
    ]
    assert [each.text for each in told("flow/bob(k)").saw] == ["A", "Then"]


def test_an_answer_that_must_fit_a_schema(told: Told) -> None:
    class Verdict(BaseModel):
        good: bool

    team = Team()
    judge = team.chat("judge", call("Verdict", good=True), output_schema=Verdict, output_key="v")
    told.of(judge).invoke("Go.")
    told.check_saw(team)
    assert told("judge").values_after == {"v": {"good": True}}


def test_a_report_follows_the_line_of_the_thread(told: Told) -> None:
    team = Team()
    tree = ag.sequential(
        "s",
        [
            team.chat("a", "A1", "A2"),
            ag.parallel("p", [team.chat("b", "B1", "B2", "B3"), says("c")]),
            team.chat("z", "Z1", "Z2", "Z3", instruction="{mood?}"),
        ],
    )
    told.of(tree).invoke("Go.", values={"mood": "sad"})
    older = told("s/z")
    told.rewind("s/p/b", values={"mood": "glad"})
    again = told("s/z")
    assert seen(older.saw) == seen(team.models["z"].inputs[0])
    assert seen(again.saw) == seen(team.models["z"].inputs[1])
    assert (older.values_before["mood"], again.values_before["mood"]) == ("sad", "glad")
    assert seen(told("s/p/b").saw) == seen(team.models["b"].inputs[1])
    assert told("s/p/b").values_before["mood"] == "glad"
    assert seen(told(older.steps[0]).saw) == seen(older.saw)
    [_, line] = told.runner.thread("t").lines
    assert told("s/z", line=line.head).said == older.said
    told.rewind("s/a")
    assert seen(told("s/z").saw) == seen(team.models["z"].inputs[2])


def test_what_is_sent_to_a_run_is_seen_by_the_model_that_takes_it(told: Told) -> None:
    team = Team()

    def steers(ctx: ag.Context) -> str:
        told.runner.steer("t", "Be brief.")
        return "x"

    tree = ag.sequential("s", [ag.function_agent("x", steers), team.chat("writer", "Yes.")])
    told.of(tree).invoke("Go.")
    assert "Be brief." in [each.text for each in team.models["writer"].inputs[0]]
    told.check_saw(team)
    assert [each.text for each in told("s/writer").said] == ["Yes."]


def test_summaries_are_seen(told: Told) -> None:
    team = Team()
    summarizer = ScriptedChatModel(responses=["Of bees."])
    policy = ag.summarized(summarizer, 3, token_counter=len)
    told.of(ag.sequential("s", [says("x"), says("y"), team.chat("w", "A", "B", history=policy)]))
    told.invoke(["one", "two"])
    assert "Of bees." in team.models["w"].inputs[0][0].text
    told.check_saw(team)


def test_no_function_of_users_is_called_for_a_report(told: Told) -> None:
    called: list[str] = []

    def noted(name: str, returned: Callable[..., Any]) -> Callable[[Any], Any]:
        def fn(given: Any) -> Any:
            called.append(name)
            return returned(given)

        return fn

    class Wraps(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            called.append("middleware")
            return handler(request)

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            called.append("middleware")
            return await handler(request)

    team = Team()
    agent = team.chat(
        "w",
        "A",
        instruction=noted("instruction", lambda ctx: "Be kind."),
        history=noted("history", lambda entries: [each.message for each in entries]),
        middleware=[Wraps()],
        model_input=noted("model_input", lambda sent: sent),
    )
    counted = ag.function_agent(
        "f",
        lambda ctx: str(len(ctx.messages)),
        history=ag.trimmed(3, token_counter=noted("counter", len)),
    )
    told.of(ag.sequential("s", [agent, counted])).invoke("Go.")
    assert set(called) == {"instruction", "history", "middleware", "model_input", "counter"}
    called.clear()
    report = told("s/w")
    assert called == []
    assert [each.partition(" is ")[0].partition(" wraps")[0] for each in report.remarks] == [
        "history=",
        "instruction=",
        "model_input=",
        "middleware",
    ]
    assert [each.text for each in report.saw] == ["Go."]
    assert [each.partition(" is ")[0] for each in told("s/f").remarks] == ["token_counter="]
    assert called == []


def test_a_database_tells_the_same(databases: Databases) -> None:
    team = Team()
    inner = ag.sequential(
        "x", [team.chat("a", "A1", "A2", output_key="by_a"), team.chat("b", "B1", "B2")]
    )
    told = Told("sync", None)
    with ag.postgres_saver(databases.make()) as saver:
        told.runner = ag.Runner(
            ag.sequential("s", [ag.parallel("p", [inner, says("c")]), says("z")]), checkpointer=saver
        )
        told.invoke("Go.")
        told.check_saw(team)
        first = told("s/p/x/b")
        told.rewind("s/p/x/b")
        again = told("s/p/x/b")
        assert seen(again.saw) == seen(team.models["b"].inputs[1]) == seen(told(first.steps[0]).saw)
        assert [each.step for each in again.attempts] == first.steps
        [_, older] = told.runner.thread("t").lines
        found = told.runner.compare("t", line=older.head)
        assert {each.address: each.differs for each in found if not each.same} == {"s/p/x/b": ("said",)}
