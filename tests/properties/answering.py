"""Threads whose questions are answered while they run, some events after they were heard.

Deadlines pass, too: the default is what a person answers.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import scripts
import specs
from conversations import Case, Thread
from helpers import Drive, Sync
from helpers.databases import Place

import agentgraph as ag

PATIENCE = (3600.0, 0.0001, 0.02)
"""How many seconds questions wait that have a deadline."""


class Answered(Thread):
    """A thread whose questions are answered while it runs, some events after they were heard.

    Attributes:
        taken: The ids of the questions whose answers were taken.
        while_running: How many of them while the run went on.
    """

    is_answered = True

    def __init__(self, case: Case, drive: Drive, path: Place | None = None) -> None:
        super().__init__(case, drive, path)
        self.taken: set[str] = set()
        self.while_running = 0
        self._due: list[tuple[int, ag.Interrupt]] = []
        self._threads: list[threading.Thread] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, event: ag.AgentEvent) -> None:
        super().hear(event)
        if event.action and (asked := event.action.interrupted) and self.choices.random() < 0.7:
            self._due.append((self.choices.choice((0, 0, 1, 2, 4)), asked))
        for _, asked in [each for each in self._due if each[0] == 0]:
            self._answer(asked)
        self._due = [(left - 1, asked) for left, asked in self._due if left]

    def call(self, method: str, *args: Any, **options: Any) -> list[ag.AgentEvent]:
        events = super().call(method, *args, **options)
        for thread in self._threads:
            thread.join()
        self._due, self._threads, self._tasks = [], [], set()
        return events

    def _answer(self, asked: ag.Interrupt) -> None:
        runner = self._runner
        assert runner is not None
        answers = {asked.id: scripts.answer(asked.address, asked.value)}
        if self.drive is not Sync:
            task = asyncio.get_running_loop().create_task(self._atake(asked, answers, runner))
            self._tasks.add(task)
        elif self.choices.random() < 0.5:
            self._take(asked, answers, runner)
        else:
            self._threads.append(threading.Thread(target=self._take, args=(asked, answers, runner)))
            self._threads[-1].start()

    def _take(self, asked: ag.Interrupt, answers: dict[str, Any], runner: ag.Runner) -> None:
        try:
            runner.answer(self.id, answers)
        except ag.UnknownInterruptError:
            return  # it is void: something failed beside it; or its deadline has passed
        self._note(asked)

    async def _atake(self, asked: ag.Interrupt, answers: dict[str, Any], runner: ag.Runner) -> None:
        try:
            await runner.aanswer(self.id, answers)
        except ag.UnknownInterruptError:
            return
        self._note(asked)

    def _note(self, asked: ag.Interrupt) -> None:
        assert asked.id not in self.taken
        self.taken.add(asked.id)
        self.while_running += 1


def beside_a_person(case: Case) -> Case:
    """Return a case whose tree runs beside a person, who is asked at once."""
    beside = BESIDE[case.seed % len(BESIDE)]
    return replace(case, tree=beside(specs.Human("person", "Well?"), case.tree))


def _branches(*agents: specs.Spec) -> specs.Spec:
    return specs.Parallel("beside", agents)


def _calls(*agents: specs.Spec) -> specs.Spec:
    """Return a function that runs agents side by side."""
    calls = tuple((number, False) for number, _ in enumerate(agents))
    return specs.Flow("beside", tuple((each, "input") for each in agents), calls, "gathered")


def _round(*agents: specs.Spec, does: Any) -> specs.Spec:
    """Return a chat agent that calls agents in one round, each with a wrap around it."""
    wrap = specs.Middleware("middleware_0", "wrap_tool_call", does, is_async=True)
    script = ((*((each.name, ()) for each in agents),),)
    tools = tuple((each, "input") for each in agents)
    return specs.Chat(
        "beside", scripts=(script,), agents=tools, on_tool_error="raise", middleware=(wrap,)
    )


BESIDE: list[Callable[[specs.Spec, specs.Spec], specs.Spec]] = [
    _branches,
    _calls,
    partial(_round, does="rewrite"),
    _calls,
    partial(_round, does="ask"),
]
"""How agents run side by side."""


def hurried(case: Case) -> Case:
    """Return a case whose deadlines may pass."""
    return replace(case, patience=PATIENCE[case.seed % len(PATIENCE)])
