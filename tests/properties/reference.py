"""A reference interpreter: what a run emits, sees and saves, branches one after the other.

So are the tool calls of a message: what they say and emit is in the order of the calls, but for
the history, where the result that ends the agent is the last one.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import scripts
import specs
from calling import Result, decided, ends, tool
from forks import CollectedError, as_text, collect, in_order, items_of, joined, results, staying
from lanes import Here, Lane, Said, handed_back, targets
from stacks import ChatEnding, Stack


def turn(tree: specs.Spec, lane: Lane, text: str) -> None:
    """Run a turn."""
    before = lane.input if lane.history[-1:] == lane.input[-1:] else []
    lane.input = [*before, Said(("human", text, None))]
    lane.history.append(lane.input[-1])
    run(tree, Here(((tree.name, None),), tree.name, None), lane)


def run(spec: specs.Spec, here: Here, lane: Lane) -> str | None:
    """Run an activation, and return the signal that it ends with."""
    if not isinstance(spec, specs.Sequential | specs.Loop | specs.Checked):
        lane.text = None
    if isinstance(spec, specs.Parallel | specs.Workflow | specs.Each):
        lane.visited.add(here.address)
    if isinstance(spec, specs.Sequential):
        _, signal = in_turn(spec, here, lane)
    elif isinstance(spec, specs.Function) and spec.is_graph:
        signal = graph(spec, here, lane)
    else:
        signal = RUNS.get(type(spec), leaf)(spec, here, lane)
    return None if signal == "break_loop" and not here.in_loop else signal


def children(spec: Any, here: Here) -> Iterator[tuple[specs.Spec, str]]:
    """Yield the sub-agents of an activation with their addresses."""
    names = [child.name for child in spec.sub_agents]
    for i, child in enumerate(spec.sub_agents):
        nth = names[: i + 1].count(child.name)
        yield child, f"{here.address}/{child.name}" + (f"#{nth}" if nth > 1 else "")


def in_turn(spec: Any, here: Here, lane: Lane) -> tuple[specs.Path, str | None]:
    """Run sub-agents one after the other."""
    path, signal = here.path, None
    for child, address in children(spec, here):
        path = (*path, (child.name, here.iteration))
        if signal := run(child, here.inside(path, address), lane):
            break
    return path, signal


def loop(spec: specs.Loop, here: Here, lane: Lane) -> str | None:
    """Run a loop."""
    path = here.path
    for k in count():
        path, signal = in_turn(spec, Here(path, f"{here.address}[{k}]", k, True), lane)
        if signal or k + 1 == spec.max_iterations:
            break
        sight = lane.look(here._replace(iteration=k))
        lane.saw[here.address].append(sight)
        if scripts.stops(spec.until, sight):
            break
    return None if signal == "break_loop" else signal


def switch(spec: specs.Switch, here: Here, lane: Lane) -> str | None:
    """Choose, and run what is chosen."""
    lane.visited.add(here.address)
    sight = lane.look(here)
    for _ in range(spec.fails):
        lane.saw[here.address].append(sight)
        error = scripts.fails_to_choose(here.address)
        if scripts.is_collected(here.address):
            collect(spec, here, lane, error)
        lane.emit(here, "error", error, kept=False)
    if spec.by != "value":
        lane.saw[here.address].append(sight)
    way = spec.ways[scripts.way(spec, sight)]
    if isinstance(way, int):
        child, address = list(children(spec, here))[way]
        lane.emit(here, "chosen", child.name)
        return run(child, here.inside((*here.path, (child.name, here.iteration)), address), lane)
    lane.emit(here, "chosen", way)
    return None if way == "skip" else way


def swarm(spec: specs.Swarm, here: Here, lane: Lane) -> str | None:
    """Run the active agent, and those that one hands over to after the other, until one just ends."""
    lane.visited.add(here.address)
    members = {agent.name: agent for agent in spec.sub_agents}
    before = active_in(spec, lane)
    active = before if before and spec.sticky else spec.sub_agents[spec.start].name
    if before != active:
        lane.write({spec.active_key: active})
    path = here.path
    for hops in count():
        path = (*path, (active, here.iteration))
        at = here.inside(path, f"{here.address}[{hops}]/{active}")
        others = [name for name in members if name != active]
        signal = run(members[active], at._replace(peers=(*others, *here.peers)), lane)
        target = (signal or "").removeprefix("transfer_to_")
        if target not in others:
            return signal
        active = target
        now_active(spec, members[target], lane)
    raise AssertionError("they do not hand over for ever")


def active_in(spec: specs.Swarm | specs.Chat, lane: Lane) -> str | None:
    """Return the name of the agent that is active by the values of the lane."""
    names = [each[spec.active_key] for each in lane.written if spec.active_key in each]
    return names[-1] if names else None


def may_transfer(target: Any) -> bool:
    """Return whether an agent may transfer: a function whose annotation names what it gives may not."""
    if isinstance(target, specs.Function):
        return "graph" in target.kind or not target.annotated
    return isinstance(target, specs.Chat)  # a flow says by its annotation that it only gives text


def now_active(around: Any, target: Any, lane: Lane) -> None:
    """Write that an agent is active, for those who keep that: the one around it, and itself.

    A chat agent keeps itself in the place of one that cannot transfer back.
    """
    chats = [each for each in (around, target) if isinstance(each, specs.Chat) and each.sticky]
    swarms = [around] if isinstance(around, specs.Swarm) else []
    keeping = {each.active_key: target.name for each in (*chats, *swarms)}
    while isinstance(target, specs.Checked):
        target = target.agent
    if isinstance(around, specs.Chat) and not may_transfer(target):
        keeping = dict.fromkeys(keeping, around.name)
    if keeping:
        lane.write(keeping)


def each(spec: specs.Each, here: Here, lane: Lane) -> str | None:
    """Run an agent for each item, and collect what the items gave."""
    sight = lane.look(here)
    for _ in range(spec.fails):
        lane.saw[here.address].append(sight)
        error = scripts.fails_to_list(here.address)
        if scripts.is_collected(here.address):
            collect(spec, here, lane, error)
        lane.emit(here, "error", error, kept=False)
    if spec.over[0] != "value":
        lane.saw[here.address].append(sight)
    items, signals = list(items_of(spec, scripts.items(spec, sight), lane)), []
    if spec.on_error == "first":
        names = [f"{spec.agent.name}({item.counter})" for item in items[1:]]
        lane.lost.update(f"{here.address}/{name}" for name in names)
        items = items[:1]
    begins = [len(item.lane.history) for item in items]
    for item in items:
        item.lane.strand = (*lane.strand, specs.Strand(here.address, item.number))
        path = (*here.path, (spec.agent.name, item.number))
        inside = here.inside(path, f"{here.address}/{spec.agent.name}({item.counter})")
        try:
            signals.append(run(spec.agent, inside._replace(number=item.number), item.lane))
        except CollectedError as error:
            failed = ("ai", f"Failed: {error}", error.leaf.name)
            item.lane.say(error.leaf.name, error.here, failed)
            item.failed = str(error)
    own = staying(spec)
    for item, begin in zip(items, begins, strict=True):
        lane.history += item.said(spec.mode, begin)
        left = [{k: v for k, v in w.items() if k not in own} for w in item.lane.written]
        lane.join(left)
    written = {item.number: item.lane.written for item in items}
    lane.settle(here, written, lambda one, other: True)
    found = results(spec, items, begins)
    lane.write({spec.output_key: found} if spec.output_key else {})
    errors = {item.name: item.failed for item in items if item.failed}
    lane.write({spec.errors_key: errors} if spec.errors_key else {})
    lane.text = as_text(found)
    return joined(signals)


def parallel(spec: specs.Parallel, here: Here, lane: Lane) -> str | None:
    """Run branches, and join them."""
    branches, signals, before = [], [], len(lane.history)
    for i, (child, address) in enumerate(children(spec, here)):
        branches.append(lane.fork(specs.Strand(here.address, i)))
        path = (*here.path, (child.name, here.iteration))
        try:
            signals.append(run(child, here.inside(path, address), branches[-1]))
        except CollectedError as error:
            failed = ("ai", f"Failed: {error}", error.leaf.name)
            branches[-1].say(error.leaf.name, error.here, failed)
    for branch in branches:
        lane.history += branch.history[before:]
        lane.join(branch.written)
    written = {i: branch.written for i, branch in enumerate(branches)}
    lane.settle(here, written, lambda one, other: True)
    return joined(signals)


def workflow(spec: specs.Workflow, here: Here, lane: Lane) -> str | None:
    """Run steps after those that they depend on, and join them; none begins after a signal.

    All have begun then that depend on nothing, and the trees leave nothing else open.
    """
    numbers = {step.agent.name: i for i, step in enumerate(spec.steps)}
    earlier: dict[str, list[str]] = {}
    ended: dict[str, Lane] = {}
    said: dict[str, list[Said]] = {}
    texts: dict[str, str] = {}
    signals: list[str | None] = []
    for name, step in in_order(spec.steps).items():
        earlier[name] = [
            each for each in earlier if any(each in (up, *earlier[up]) for up in step.depends_on)
        ]
        if step.depends_on and any(signals):
            continue
        own = lane.fork(
            specs.Strand(here.address, numbers[name], frozenset(numbers[up] for up in earlier[name]))
        )
        for up in earlier[name]:
            own.history += said[up]
            own.see([handed_back(each) for each in ended[up].written])
        if not scripts.runs(step, own.values, own.history):
            ended[name], said[name], texts[name] = own, [], ""
            continue
        if step.input:
            text = scripts.filled(step.input, own.values).replace("$", texts[step.depends_on[0]])
            own.input = [Said(("human", text, None))]
            own.history = list(own.input)
        own.start = len(own.history)
        begin, ended[name] = len(own.history), own
        path = (*here.path, (name, here.iteration))
        signals.append(run(step.agent, here.inside(path, f"{here.address}/{name}"), own))
        said[name], texts[name] = own.history[begin:], own.last_text(begin)
    for name, own in ended.items():
        lane.history += said[name]
        lane.join(own.written)
    begun = list(ended)
    written = {i: ended[name].written for i, name in enumerate(begun)}
    lane.settle(
        here, written, lambda i, j: not {begun[i], begun[j]} & {*earlier[begun[i]], *earlier[begun[j]]}
    )
    return joined(signals)


def checked(spec: specs.Checked, here: Here, lane: Lane) -> str | None:
    """Run an agent again while a check sends it back."""
    tries: tuple[str, ...] = ()
    for k in count():
        path = (*here.path, *[(spec.name, here.step)] * k)
        attempt = here.inside(path, here.address + (f"{{{k}}}" if k else ""))
        tries = (*tries, attempt.address)
        attempt = attempt._replace(tries=tries if k else (), number=here.number)
        begin = len(lane.history)
        signal = run(spec.agent, attempt, lane)
        if signal or k == spec.refusals:
            return signal
        text = "".join([said.message[1] for said in lane.history[begin:]][-1:])
        wrong = f"This did not pass a check: {scripts.refusal(attempt.address, text)}"
        again = f"{wrong}\nDo it again, with that put right."
        lane.say(spec.name, attempt, ("human", again, spec.name))
    return None


def leaf(spec: specs.Function | specs.Human, here: Here, lane: Lane) -> str | None:
    """Run a leaf whose calls are known before."""
    signal, answered = None, ()
    lane.visited.add(here.address)
    for call in scripts.calls(spec, here.address, lane.sight(spec, here, (), lane.begin(here))):
        lane.saw[here.address].append(lane.sight(spec, here, answered, lane.begin(here)))
        for kind, data in call.items:
            if kind == "error" and scripts.is_collected(here.address):
                collect(spec, here, lane, data, emitted=[kind for kind, _ in call.items])
            lane.emit(here, kind, data, kept=not call.fails)
        for kind, data in () if call.fails else call.items:
            if kind == "message":
                lane.history.append(Said(data, spec.name, here.address, here.path))
                value = answered[0] if isinstance(spec, specs.Human) else data[1]
                lane.write({spec.output_key: value} if spec.output_key else {})
            elif kind == "values":
                lane.write(data)
            elif kind == "interrupted":
                answered = (scripts.answer(here.address, data),)
            elif kind != "custom":
                signal = kind
    return signal


def flow(spec: specs.Flow, here: Here, lane: Lane) -> None:
    """Run a function that runs agents; their values are the function's once it has ended.

    Of calls side by side, the questions of those that have numbers come first.
    """
    lane.visited.add(here.address)
    own, said, numbers = lane.fork(), dict[int, str](), count()
    beside: dict[int, Lane] = {}
    made = [(n, i, f"k{n}" if keyed else next(numbers)) for n, (i, keyed) in enumerate(spec.calls)]
    if spec.kind == "gathered":
        made.sort(key=lambda each: isinstance(each[2], str))
    for n, i, call in made:
        args = json.dumps({"request": f"Call {n}"})
        if spec.kind == "gathered":
            beside[n] = lane.fork(specs.Strand(here.address, n))
        said[n] = agent(spec.agents[i][0], "input", here, beside.get(n, own), args, call)
    lane.join(own.written)
    for _, each in sorted(beside.items()):
        lane.join(each.written)
    lane.settle(here, {n: each.written for n, each in beside.items()}, lambda one, other: True)
    text = " | ".join(said[n] for n in sorted(said))
    lane.say(spec.name, here, ("ai", text, spec.name))
    lane.write({spec.output_key: text} if spec.output_key else {})


def graph(spec: specs.Function, here: Here, lane: Lane) -> None:
    """Run a graph, which sees what there is at its beginning, and sets its value in the end."""
    sight = lane.sight(spec, here, (), lane.begin(here))
    lane.visited.add(here.address)
    lane.saw[here.address].append(sight)
    number, said = 0, []
    for call in scripts.calls(spec, here.address, sight):
        visit(spec, here, lane, number)
        for kind, data in call.items:
            at = part(spec, here, number, kind)
            if kind == "error" and scripts.is_collected(here.address):
                collect(spec, at, lane, data)
            lane.emit(at, kind, data, kept=not call.fails)
            if kind == "message":
                lane.history.append(Said(data, spec.name, at.address, at.path))
                said.append(data[1])
        number += not call.fails
    visit(spec, here, lane, max(1, number - 1))
    lane.write({spec.output_key: said[-1]} if spec.output_key and said else {})


def visit(spec: specs.Function, here: Here, lane: Lane, call: int) -> None:
    """Note which nodes of a graph run for a call, if it is laid flat."""
    if spec.is_flat:
        nodes = [("ask", call - 1), ("then", call - 1)] if call else [("first", 0)]
        lane.visited |= {here.at_node(*node).address for node in nodes}


def part(spec: specs.Function, here: Here, call: int, kind: specs.Kind) -> Here:
    """Return where a graph gives something in a call: one that is laid flat, in one of its nodes."""
    if not spec.is_flat or (kind == "message" and spec.annotated):
        return here
    if kind == "interrupted":
        return here.at_node("ask", call)
    return here.at_node("then", call - 1) if call else here.at_node("first", 0)


def group(spec: specs.Chat, here: Here, lane: Lane) -> str | None:
    """Run a chat agent, and those that one hands over to after the other, until one just ends.

    That hands back to the nearest one above whose sub-agents return, if there is any.
    """
    way: list[Any] = [spec]
    hops = 0
    asked: list[int] = []
    path = here.path
    while True:
        began = here.address + (f"[{hops}]" if hops else "")
        address = "/".join([began, *(each.name for each in way[1:])])
        at = here._replace(path=path, address=address, above=None)
        if getattr(way[-1], "sticky", False) and isinstance(way[-1], specs.Chat):
            active = active_in(way[-1], lane)
            if child := [each for each in way[-1].sub_agents if each.name == active]:
                lane.visited.add(address)
                hops, way = hops + 1, [*way, *child]
                path = (*path, (child[0].name, here.iteration))
                continue
        if way[1:] and isinstance(way[-1], specs.Chat):
            others = [each.name for each in way[-2].sub_agents if way[-2].peers and each != way[-1]]
            at = at._replace(peers=tuple(others))
        asked, begin = [*asked, 0][: len(way)], len(lane.history)
        signal = member(way, at, lane, asked[-1])
        own = [said.message[0] for said in lane.history[begin:] if said.address == address]
        asked[-1] += own.count("ai")
        if signal in ("exit", "break_loop"):
            return signal
        moves = [f"transfer_to_{each.name}" for each in getattr(way[-1], "sub_agents", ())]
        if signal in moves:
            hops += 1
            way.append(way[-1].sub_agents[moves.index(signal)])
            now_active(way[-2], way[-1], lane)
            path = (*path, (way[-1].name, here.iteration))
            continue
        if (target := (signal or "").removeprefix("transfer_to_")) in at.peers:
            if not way[1:]:
                return signal
            hops += 1
            (way[-1],) = (each for each in way[-2].sub_agents if each.name == target)
            now_active(way[-2], way[-1], lane)
            asked[-1] = 0
            path = (*path, (target, here.iteration))
            continue
        returns = [True] if signal else [each.sub_agents_return for each in way[-2::-1]]
        if True not in returns:
            return None
        hops += 1
        for _ in range(returns.index(True) + 1):
            way.pop()
            path = (*path, (way[-1].name, here.iteration if way[1:] else here.step))
        if signal:
            now_active(way[-1], way[-1], lane)


def member(way: Sequence[Any], here: Here, lane: Lane, asked: int) -> str | None:
    """Run the last of those that handed over; its model was asked so often before others returned."""
    *above, spec = way
    if not isinstance(spec, specs.Chat):
        return run(spec, here, lane)
    backs = [each.name for each in above[-1:] if not each.sub_agents_return]
    here = here._replace(above=backs[0] if backs else None)
    return chat(spec, here, lane, asked if spec.sub_agents_return else 0)


def chat(spec: specs.Chat, here: Here, lane: Lane, before: int) -> str | None:
    """Run the rounds of a chat agent, between the hooks that come first and last."""
    lane.visited.add(here.address)
    lane.text = None
    stack = Stack(spec, here, lane)
    leaving = stack.hooks("before_agent") or rounds(spec, here, lane, before, stack)
    while stack.hooks("after_agent"):
        pass  # a jump to the end runs them again
    if leaving.signal and leaving.signal.startswith("transfer_to_"):
        lane.emit(here, "transfer_to", leaving.signal.removeprefix("transfer_to_"))
    elif leaving.signal:
        lane.emit(here, leaving.signal, None)
    if leaving.keeps and spec.output_key:
        own = [said.message for said in lane.history if said.address == here.address]
        lane.write({spec.output_key: own[-1][1] if own else ""})
    return leaving.signal


def rounds(spec: specs.Chat, here: Here, lane: Lane, before: int, stack: Stack) -> ChatEnding:
    """Ask the model and run its calls, until it makes none or one of them ends the agent.

    How often it was asked before sub-agents handed back is how often its agent spoke.
    """
    made = 0
    for n in count(before):
        lane.hear(here, n - before)
        if leaving := stack.hooks("before_model"):
            return leaving
        said = stack.reply(is_last=n >= spec.max_iterations)
        lane.say(spec.name, here, said)
        calls = said[3] if len(said) > 3 else ()
        decisions = approved(spec, here, lane, calls)
        given = {i: decided(call, decisions.get(i)) for i, call in enumerate(calls)}
        for message in filter(None, given.values()):
            lane.say(spec.name, here, message)
        if leaving := stack.hooks("after_model"):
            return leaving
        if len([said.message for said in lane.history if said.message[0] == "ai"][-1]) == 3:
            return ChatEnding()
        results = answered(
            spec, here, lane, calls, f"{here.address} {n}", made, decisions, given, stack
        )
        made += len(calls)
        how, ending = ends(spec, here, results)
        for result in sorted(results, key=lambda each: each is ending):
            lane.history.append(Said(result.message, spec.name, here.address, here.path))
        for result in results:
            lane.join(result.written)
        written = {i: result.written for i, result in enumerate(results)}
        lane.settle(here, written, lambda one, other: spec.parallel_tools)
        if how is None and any("break_loop" in result.acts for result in results):
            lane.emit(here, "break_loop", None)
        if ending:
            return ChatEnding(how, keeps=not (how or "").startswith("transfer_to_"))
    raise AssertionError("the model is not asked for ever")


def answered(
    spec: specs.Chat,
    here: Here,
    lane: Lane,
    calls: Sequence[specs.Asked],
    fork: str,
    made: int,
    decisions: Mapping[int, dict[str, Any]],
    given: Mapping[int, specs.Rendered | None],
    stack: Stack,
) -> list[Result]:
    """Return the results of the tools that ran."""
    results: list[Result] = []
    counted: list[specs.Middleware] = []
    moves = {f"transfer_to_{target}" for target in targets(spec, here)}
    actions = [(decisions.get(i) or {}).get("edited_action") for i in range(len(calls))]
    names = [action["name"] if action else call[0] for action, call in zip(actions, calls, strict=True)]
    passed_over = [i for i, name in enumerate(names) if name in moves and not given[i]][:-1]
    for i, call in enumerate(calls):
        if given[i]:
            continue
        own = lane.fork(*([specs.Strand(fork, i)] if spec.parallel_tools else []))
        for before in () if spec.parallel_tools else results:
            own.see(before.written)
        if i in passed_over:
            result = Result(("tool", scripts.PASSED_OVER, call[0], call[2], "error"))
        else:
            run = partial(called, spec, here, own, number=made + i)
            result = stack.tool(call, own, partial(edited, call, decisions.get(i), run), counted)
        own.emit(here, "message", result.message)
        results.append(result._replace(written=own.written))
    stack.count(counted)
    return results


def approved(
    spec: specs.Chat, here: Here, lane: Lane, calls: Sequence[specs.Asked]
) -> dict[int, dict[str, Any]]:
    """Return what a person decided, by the number of the call: one question for all that need it."""
    numbers = [i for i, call in enumerate(calls) if call[0] in spec.approve]
    if not numbers:
        return {}
    request = scripts.request([calls[i] for i in numbers])
    lane.emit(here, "interrupted", request)
    return dict(zip(numbers, scripts.answer(here.address, request)["decisions"], strict=True))


def edited(
    asked: specs.Asked, decision: dict[str, Any] | None, run: Callable[[specs.Asked], Result]
) -> Result:
    """Run a call as a person edited it, and say so in its result, unless it failed."""
    action = (decision or {}).get("edited_action")
    if action is None:
        return run(asked)
    result = run((action["name"], json.dumps(action["args"]), asked[2]))
    kind, text, *rest = result.message
    notice = scripts.notice(action, text)
    return result if rest[-1] == "error" else result._replace(message=(kind, notice, *rest))


def called(spec: specs.Chat, here: Here, lane: Lane, asked: specs.Asked, number: int) -> Result:
    """Run a tool call."""
    name, args, call_id = asked
    inner = next((each for each in spec.agents if each[0].name == name), None)
    if inner:
        return Result(("tool", agent(*inner, here, lane, args, number), name, call_id, "success"))
    if name in ("exit", "break_loop") and getattr(spec, f"{name.partition('_')[0]}_tool"):
        lane.steered[here.address, name] += 1
        return Result(("tool", json.loads(args)["final_result"], name, call_id, "success"), [name])
    there = targets(spec, here)
    if (target := name.removeprefix("transfer_to_")) in there:
        lane.steered[here.address, name] += 1
        return Result(("tool", f"Transferred to {target}.", name, call_id, "success"), [name])
    if name not in spec.tools:
        return Result(("tool", scripts.unknown(spec, there, name), name, call_id, "error"))
    return tool(spec, here, lane, asked)


def before_calls(history: Sequence[Said], here: Here) -> list[Said]:
    """Return a history without an agent's last calls and their results; its words stay."""
    calling = [i for i, each in enumerate(history) if each.address == here.address]
    at = max(i for i in calling if history[i].message[0] == "ai" and len(history[i].message) > 3)
    said = replace(history[at], message=history[at].message[:3])
    return [*history[:at], *([said] if said.message[1].strip() else [])]


def agent(inner: specs.Spec, history: str, here: Here, lane: Lane, args: str, number: int | str) -> str:
    """Run an agent as a tool, and return what it says last."""
    inside, request = lane.fork(), Said(("human", json.loads(args)["request"], None))
    inside.input = [request]
    inside.history = [*(before_calls(lane.history, here) if history == "shared" else ()), request]
    inside.start, inside.kept = len(inside.history), {}
    before, path = len(inside.history), (*here.path, (inner.name, here.iteration))
    run(inner, Here(path, f"{here.address}/{inner.name}({number})", here.iteration), inside)
    lane.join(inside.written)
    return inside.last_text(before)


RUNS: dict[type, Callable[[Any, Here, Lane], str | None]] = {
    specs.Loop: loop,
    specs.Parallel: parallel,
    specs.Workflow: workflow,
    specs.Switch: switch,
    specs.Swarm: swarm,
    specs.Each: each,
    specs.Checked: checked,
    specs.Flow: flow,
    specs.Chat: group,
}
"""How the kinds of agents run; the others are leaves."""
