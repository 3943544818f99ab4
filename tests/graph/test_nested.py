"""Derived agents inside each other: whole transcripts, with a question inside, resumed elsewhere."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from helpers import Disk, says, scripted

import agentgraph as ag
from agentgraph.testing import call, calls, transcript


def asks(name: str = "boss") -> ag.Agent:
    return ag.human(name, "Well?")


def to(name: str) -> Any:
    return calls(call(f"transfer_to_{name}"))


def use(name: str, request: str = "Go on.") -> Any:
    return calls(call(name, request=request))


def spoken(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return a transcript without the messages that carry out transfers."""
    return [
        line
        for line in transcript(events)
        if ": Transferred to" not in line and ": [calls] transfer_to" not in line
    ]


def edges(agent: ag.Agent, *, xray: bool = False) -> set[str]:
    graph = ag.compile_agent(agent).get_graph(xray=xray)
    return {f"{e.source} {'..' if e.conditional else '->'} {e.target}" for e in graph.edges}


def flow() -> ag.Agent:
    """Return a workflow of three steps, the middle one a question."""
    return ag.workflow(
        "flow",
        [
            ag.step(says("find"), compensate=lambda ctx: None),
            ag.step(asks(), depends_on=["find"]),
            ag.step(says("write"), depends_on=["boss"]),
        ],
    )


def plan(name: str = "pe", executor: ag.Agent | None = None, **options: Any) -> ag.Agent:
    return ag.plan_execute(
        name,
        planner=says("planner", '["x"]'),
        executor=executor or asks(),
        replanner=says("replanner", '{"answer": "All."}'),
        **options,
    )


def handing(*workers: ag.Agent, name: str = "S", **options: Any) -> ag.Agent:
    responses = [*(to(worker.name) for worker in workers), "Done."]
    return ag.supervisor(name, scripted(*responses), workers, mode="handoff", **options)


def using(*workers: ag.Agent, name: str = "S", **options: Any) -> ag.Agent:
    responses = [*(use(worker.name) for worker in workers), "Done."]
    return ag.supervisor(name, scripted(*responses), workers, **options)


class TestASupervisorInALoopInASequence:
    def test_that_hands_over(self, disk: Disk) -> None:
        model = scripted(to("W"), "One.", to("W"), "Two.")
        boss = ag.supervisor("S", model, [ag.sequential("W", [asks(), says("w")])], mode="handoff")
        tree = ag.sequential(
            "s", [says("a"), ag.loop("l", [boss, says("b")], max_iterations=2), says("z")]
        )
        assert spoken(disk.run(tree)) == [
            "s/a: a",
            "s/a/l/S: [transfer_to] W",
            "s/a/l/S/W/boss: [asks] Well?",
        ]
        assert spoken(disk.resume(tree, "Yes.")) == [
            "s/a/l/S/W/boss: Yes.",
            "s/a/l/S/W/boss/w: w",
            "s/a/l/S/W/S: One.",
            "s/a/l/S/b: b",
            "s/a/l/S/b/S: [transfer_to] W",
            "s/a/l/S/b/S/W/boss: [asks] Well?",
        ]
        assert spoken(disk.resume(tree, "No.")) == [
            "s/a/l/S/b/S/W/boss: No.",
            "s/a/l/S/b/S/W/boss/w: w",
            "s/a/l/S/b/S/W/S: Two.",
            "s/a/l/S/b/S/b: b",
            "s/a/l/z: z",
        ]
        assert disk.events(tree) == disk.told
        assert len(model.inputs) == 4

    def test_that_uses_tools(self, disk: Disk) -> None:
        model = scripted(use("W"), "One.", use("W"), "Two.")
        boss = ag.supervisor("S", model, [ag.sequential("W", [asks(), says("w")])])
        tree = ag.sequential("s", [says("a"), ag.loop("l", [boss], max_iterations=2), says("z")])
        assert transcript(disk.run(tree)) == [
            "s/a: a",
            's/a/l/S: [calls] W({"request": "Go on."})',
            "s/a/l/S/W/boss: [asks] Well?",
        ]
        assert transcript(disk.resume(tree, "Yes.")) == [
            "s/a/l/S/W/boss: Yes.",
            "s/a/l/S/W/boss/w: w",
            "s/a/l/S: w",
            "s/a/l/S: One.",
            's/a/l/S/S: [calls] W({"request": "Go on."})',
            "s/a/l/S/S/W/boss: [asks] Well?",
        ]
        assert transcript(disk.resume(tree, "No.")) == [
            "s/a/l/S/S/W/boss: No.",
            "s/a/l/S/S/W/boss/w: w",
            "s/a/l/S/S: w",
            "s/a/l/S/S: Two.",
            "s/a/l/z: z",
        ]
        assert disk.events(tree) == disk.told
        assert len(model.inputs) == 4


class TestAWorkflowInASupervisor:
    def test_that_hands_over(self, disk: Disk) -> None:
        tree = handing(flow())
        assert spoken(disk.run(tree)) == [
            "S: [transfer_to] flow",
            "S/flow/find: find",
            "S/flow/boss: [asks] Well?",
        ]
        assert spoken(disk.resume(tree, "Yes.")) == [
            "S/flow/boss: Yes.",
            "S/flow/write: write",
            "S/flow/S: Done.",
        ]
        assert disk.events(tree) == disk.told

    def test_that_uses_tools(self, disk: Disk) -> None:
        tree = using(flow())
        assert transcript(disk.run(tree)) == [
            'S: [calls] flow({"request": "Go on."})',
            "S/flow/find: find",
            "S/flow/boss: [asks] Well?",
        ]
        assert transcript(disk.resume(tree, "Yes.")) == [
            "S/flow/boss: Yes.",
            "S/flow/write: write",
            "S: write",
            "S: Done.",
        ]
        assert disk.events(tree) == disk.told

    def test_of_a_supervisor(self, disk: Disk) -> None:
        tree = handing(handing(flow(), name="in"), name="out")
        disk.run(tree)
        assert spoken(disk.resume(tree, "Yes.")) == [
            "out/in/flow/boss: Yes.",
            "out/in/flow/write: write",
            "out/in/flow/in: Done.",
            "out/in/flow/in/out: Done.",
        ]
        assert disk.events(tree) == disk.told

    def test_whose_step_is_a_supervisor(self, disk: Disk) -> None:
        steps = [
            ag.step(handing(asks())),
            ag.step(says("write"), depends_on=["S"], input="Sum up: ${results.S}"),
        ]
        tree = ag.workflow("flow", steps)
        assert spoken(disk.run(tree)) == ["flow/S: [transfer_to] boss", "flow/S/boss: [asks] Well?"]
        assert spoken(disk.resume(tree, "Yes.")) == [
            "flow/S/boss: Yes.",
            "flow/S/boss/S: Done.",
            "flow/write: write",
        ]
        assert disk.events(tree) == disk.told


class TestAPlanExecute:
    def test_as_a_worker_that_is_handed_over_to(self, disk: Disk) -> None:
        tree = handing(plan())
        assert spoken(disk.run(tree)) == [
            "S: [transfer_to] pe",
            'S/pe/planner: ["x"]',
            "S/pe/planner/execute/boss: [asks] Well?",
        ]
        assert spoken(disk.resume(tree, "Yes.")) == [
            "S/pe/planner/execute/boss: Yes.",
            'S/pe/planner/execute/boss/replanner: {"answer": "All."}',
            "S/pe: All.",
            "S/pe/S: Done.",
        ]
        assert disk.events(tree) == disk.told

    def test_as_a_worker_that_is_a_tool(self, disk: Disk) -> None:
        tree = using(plan())
        assert transcript(disk.run(tree)) == [
            'S: [calls] pe({"request": "Go on."})',
            'S/pe/planner: ["x"]',
            "S/pe/planner/execute/boss: [asks] Well?",
        ]
        assert transcript(disk.resume(tree, "Yes.")) == [
            "S/pe/planner/execute/boss: Yes.",
            'S/pe/planner/execute/boss/replanner: {"answer": "All."}',
            "S/pe: All.",
            "S: All.",
            "S: Done.",
        ]
        assert disk.events(tree) == disk.told

    @pytest.mark.parametrize("parallel", [False, True])
    def test_in_a_step_of_a_workflow(self, disk: Disk, parallel: bool) -> None:
        steps = [
            ag.step(says("find")),
            ag.step(plan(parallel=parallel), depends_on=["find"]),
            ag.step(says("write"), depends_on=["pe"], input="${results.pe}"),
        ]
        tree = ag.workflow("flow", steps)
        inside = "execute/pe_steps" if parallel else "execute"
        beside = "execute/pe_steps" if parallel else "execute/boss"
        assert transcript(disk.run(tree)) == [
            "flow/find: find",
            'flow/pe/planner: ["x"]',
            f"flow/pe/planner/{inside}/boss: [asks] Well?",
        ]
        assert transcript(disk.resume(tree, "Yes.")) == [
            f"flow/pe/planner/{inside}/boss: Yes.",
            f'flow/pe/planner/{beside}/replanner: {{"answer": "All."}}',
            "flow/pe: All.",
            "flow/write: write",
        ]
        assert disk.events(tree) == disk.told

    def test_whose_executor_is_a_supervisor(self, disk: Disk) -> None:
        tree = plan(executor=handing(asks()))
        assert spoken(disk.run(tree))[1:] == [
            "pe/planner/execute/S: [transfer_to] boss",
            "pe/planner/execute/S/boss: [asks] Well?",
        ]
        assert spoken(disk.resume(tree, "Yes.")) == [
            "pe/planner/execute/S/boss: Yes.",
            "pe/planner/execute/S/boss/S: Done.",
            'pe/planner/execute/S/replanner: {"answer": "All."}',
            "pe: All.",
        ]
        assert disk.events(tree) == disk.told

    def test_whose_executor_is_a_workflow(self, disk: Disk) -> None:
        tree = plan(executor=flow(), parallel=True)
        assert transcript(disk.run(tree))[1:] == [
            "pe/planner/execute/pe_steps/flow/find: find",
            "pe/planner/execute/pe_steps/flow/boss: [asks] Well?",
        ]
        told = disk.resume(tree, "Yes.")
        assert transcript(told) == [
            "pe/planner/execute/pe_steps/flow/boss: Yes.",
            "pe/planner/execute/pe_steps/flow/write: write",
            'pe/planner/execute/pe_steps/replanner: {"answer": "All."}',
            "pe: All.",
        ]
        assert told[0].address == "pe/execute[0]/pe_steps/flow(0)/boss"
        assert disk.events(tree) == disk.told


class TestACheckedSupervisor:
    @pytest.mark.parametrize("supervise", [handing, using])
    def test_works_again_until_it_passes(self, disk: Disk, supervise: Callable[..., Any]) -> None:
        one = to if supervise is handing else use
        model = scripted(one("boss"), "No.", one("boss"), "Yes.")
        mode = "handoff" if supervise is handing else "tools"
        boss = ag.supervisor("S", model, [asks()], mode=mode)
        tree = ag.sequential("s", [ag.validated(boss, lambda text: text == "Yes."), says("z")])
        disk.run(tree)
        told = disk.resume(tree, "First.")
        (wrong,) = [event for event in told if event.text.startswith("This did not pass a check")]
        assert (wrong.agent_name, wrong.address) == ("S", "s/S[1.0]" if mode == "handoff" else "s/S")
        question = told[-1].action.interrupted
        assert question.address == {"handoff": "s/S{1}[1]/boss", "tools": "s/S{1}/boss(0)"}[mode]
        assert [event.text for event in disk.resume(tree, "Second.")][-2:] == ["Yes.", "z"]
        assert disk.events(tree) == disk.told
        assert len(model.inputs) == 4

    def test_that_hands_over_tells_its_attempts_in_addresses_and_paths(self, disk: Disk) -> None:
        model = scripted(to("W"), "No.", to("W"), "Yes.")
        boss = ag.supervisor("S", model, [says("W")], mode="handoff")
        tree = ag.validated(boss, lambda text: text == "Yes.")
        visited = [(event.address, str(event.run_path)) for event in disk.run(tree)]
        assert list(dict.fromkeys(visited)) == [
            ("S", "S"),
            ("S[1]/W", "S/W"),
            ("S[1.0]", "S/W/S"),
            ("S{1}", "S/S"),
            ("S{1}[1]/W", "S/S/W"),
            ("S{1}[1.0]", "S/S/W/S"),
        ]
        assert disk.events(tree) == disk.told


def test_four_levels_run_each_leaf_once_over_three_runners(disk: Disk) -> None:
    counts: Counter[str] = Counter()

    def counted(name: str) -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            counts[name] += 1
            return name

        return ag.function_agent(name, fn)

    work = ag.workflow(
        "flow",
        [
            ag.step(counted("f")),
            ag.step(asks("h1"), depends_on=["f"]),
            ag.step(asks("h2"), depends_on=["h1"]),
            ag.step(counted("g"), depends_on=["h2"]),
        ],
    )
    inner = handing(ag.sequential("q", [counted("x"), work, counted("y")]), name="in")
    helped = ag.with_helpers(inner, [counted("k1"), counted("k2")])
    checked = ag.validated(helped, lambda text: text == "Done.")
    tree = ag.sequential("s", [using(plan(executor=checked)), counted("z")])
    disk.run(tree)
    disk.resume(tree, "One.")
    last = disk.resume(tree, "Two.")
    assert [event.text for event in last if event.text][-2:] == ["Done.", "z"]
    assert counts == Counter(f=1, g=1, x=1, y=1, z=1, k1=1, k2=1)
    questions = [event.address for event in disk.told if event.kind == "interrupted"]
    assert questions == [
        f"s/S/pe(0)/execute[0]/in_with_helpers/in[1]/q/flow/{name}" for name in ("h1", "h2")
    ]
    assert {e.id: e for e in disk.events(tree)} == {e.id: e for e in disk.told}


class TestADrawing:
    def test_of_a_supervisor_that_hands_over(self) -> None:
        tree = ag.sequential(
            "s", [handing(says("a"), ag.sequential("q", [says("b"), says("c")])), says("z")]
        )
        assert edges(tree) == {
            "__start__ -> S",
            "S .. S.tools",
            "S .. z",
            "S.tools .. S",
            "S.tools .. a",
            "S.tools .. b",
            "a -> S",
            "b -> c",
            "c -> S",
            "z -> __end__",
        }

    def test_of_a_supervisor_of_supervisors(self) -> None:
        assert edges(handing(handing(says("a"), name="in"), name="out")) == {
            "__start__ -> out",
            "out .. out.tools",
            "out .. __end__",
            "out.tools .. out",
            "out.tools .. in",
            "in .. in.tools",
            "in .. out",
            "in.tools .. in",
            "in.tools .. a",
            "a -> in",
        }

    def test_of_a_plan_execute(self) -> None:
        def text(ctx: ag.Context) -> str:
            return "[]"

        roles = {n: ag.function_agent(n, text) for n in ("planner", "executor", "replanner")}
        assert edges(ag.sequential("s", [ag.plan_execute("pe", **roles), says("z")])) == {
            "__start__ -> planner",
            "planner .. planner",
            "planner .. executor",
            "executor -> replanner",
            "replanner .. replanner",
            "replanner .. executor",
            "replanner .. z",
            "z -> __end__",
        }

    def test_of_a_plan_execute_with_steps_side_by_side(self) -> None:
        assert edges(plan(executor=says("e"), parallel=True)) == {
            "__start__ -> planner",
            "planner .. planner",
            "planner .. pe_steps",
            "pe_steps -> replanner",
            "replanner .. replanner",
            "replanner .. pe_steps",
            "replanner .. __end__",
        }

    def test_of_a_workflow(self) -> None:
        assert edges(ag.sequential("s", [says("a"), flow(), says("z")])) == {
            "__start__ -> a",
            "a -> flow",
            "flow -> z",
            "z -> __end__",
        }
