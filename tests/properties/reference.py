"""A reference interpreter: what a run tells, sees and keeps, branches one after the other.

So are the tool calls of a message: what they say and tell is in the order of the calls, but for
the history, where the result that ends the agent is the last one.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import scripts
import specs
from calling import Result, decided, ends, tool
from lanes import Here, Lane, Said, targets


def turn(tree: specs.Spec, lane: Lane, text: str) -> None:
    """Run a turn."""
    before = lane.input if lane.history[-1:] == lane.input[-1:] else []
    lane.input = [*before, Said(("human", text, None))]
    lane.history.append(lane.input[-1])
    run(tree, Here(((tree.name, None),), tree.name, None), lane)


def run(spec: specs.Spec, here: Here, lane: Lane) -> str | None:
    """Run an activation, and return the signal that it ends with."""
    match spec:
        case specs.Sequential():
            _, signal = in_turn(spec, here, lane)
        case specs.Loop():
            signal = loop(spec, here, lane)
        case specs.Parallel():
            signal = parallel(spec, here, lane)
        case specs.Chat():
            signal = group(spec, here, lane)
        case _:
            signal = leaf(spec, here, lane)
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
        if signal := run(child, here._replace(path=path, address=address, above=None), lane):
            break
    return path, signal


def loop(spec: specs.Loop, here: Here, lane: Lane) -> str | None:
    """Run a loop."""
    path = here.path
    for k in count():
        path, signal = in_turn(spec, Here(path, f"{here.address}[{k}]", k, True), lane)
        if signal or k + 1 == spec.max_iterations:
            break
        sight = specs.Sight(here.path, k, [said.message for said in lane.history], dict(lane.values))
        lane.saw[here.address].append(sight)
        if scripts.stops(spec.until, sight):
            break
    return None if signal == "break_loop" else signal


def parallel(spec: specs.Parallel, here: Here, lane: Lane) -> str | None:
    """Run branches, and join them."""
    branches, signals, before = [], [], len(lane.history)
    for i, (child, address) in enumerate(children(spec, here)):
        branches.append(lane.fork((here.address, i)))
        path = (*here.path, (child.name, here.iteration))
        signals.append(run(child, here._replace(path=path, address=address, above=None), branches[-1]))
    for branch in branches:
        lane.history += branch.history[before:]
        lane.write(branch.written)
    return "exit" if "exit" in signals else "break_loop" if "break_loop" in signals else None


def leaf(spec: specs.Function | specs.Human, here: Here, lane: Lane) -> str | None:
    """Run a leaf whose calls are known before."""
    signal, answered = None, ()
    for call in scripts.calls(spec, here.address, lane.sight(spec, here, ())):
        lane.saw[here.address].append(lane.sight(spec, here, answered))
        for kind, data in call.items:
            lane.tell(here, kind, data, kept=not call.fails)
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


def group(spec: specs.Chat, here: Here, lane: Lane) -> str | None:
    """Run a chat agent, and those that one hands over to after the other, until one just ends."""
    way: list[specs.Spec] = [spec]
    hops: list[int] = []
    path = here.path
    while True:
        began = here.address + (f"[{'.'.join(map(str, hops))}]" if hops else "")
        address = "/".join([began, *(each.name for each in way[1:])])
        at = here._replace(path=path, address=address, above=None)
        if not isinstance(current := way[-1], specs.Chat):
            return run(current, at, lane)
        signal = chat(current, at._replace(above=way[-2].name if way[1:] else None), lane)
        if not (signal or "").startswith("transfer_to_"):
            return signal
        found = [each for each in current.sub_agents if signal == f"transfer_to_{each.name}"]
        way = [*way, *found] if found else way[:-1]
        hops.append(current.sub_agents.index(found[0]) + 1 if found else 0)
        path = (*path, (way[-1].name, here.iteration))


def chat(spec: specs.Chat, here: Here, lane: Lane) -> str | None:
    """Ask the model and run its calls, until it makes none or one of them ends the agent."""
    begin, made = len(lane.history), 0
    for n in count():
        sight = lane.sight(spec, here, (), begin)
        lane.saw[here.address] += [sight] * (spec.fails + 1)
        for _ in range(spec.fails):
            lane.tell(here, "error", spec.name, kept=False)
        said = scripts.reply(spec, here.address, sight.messages)
        said = said[:3] if n == spec.max_iterations else said
        say(spec, here, lane, said)
        if len(said) == 3:
            lane.write({spec.output_key: said[1]} if spec.output_key else {})
            break
        calls, decisions = approved(spec, here, lane, said[3], f"{here.address} {n}")
        results = []
        for i, asked in enumerate(calls):
            strand = [(f"{here.address} {n}", i)] if spec.parallel_tools else []
            own = lane.fork(*strand)
            result = decided(asked, decisions.get(i)) or called(spec, here, own, asked, made + i)
            own.tell(here, "message", result.message)
            results.append(result._replace(written=own.written))
        made += len(calls)
        how, ending = ends(spec, here, results)
        for result in sorted(results, key=lambda each: each is ending):
            lane.history.append(Said(result.message, spec.name, here.address, here.path))
        for result in results:
            lane.write(result.written)
        if how and how.startswith("transfer_to_"):
            lane.tell(here, "transfer_to", how.removeprefix("transfer_to_"))
            return how
        if how or any("break_loop" in result.acts for result in results):
            lane.tell(here, how or "break_loop", None)
        if ending:
            lane.write({spec.output_key: ending.message[1]} if spec.output_key else {})
            return how
    return None


def say(spec: specs.Chat, here: Here, lane: Lane, message: specs.Rendered) -> None:
    """Say a message."""
    lane.tell(here, "message", message)
    lane.history.append(Said(message, spec.name, here.address, here.path))


def approved(
    spec: specs.Chat, here: Here, lane: Lane, calls: Sequence[specs.Asked], fork: str
) -> tuple[Sequence[specs.Asked], dict[int, dict[str, Any]]]:
    """Return the calls as a person edited them, and what the person decided of each."""
    decisions = {}
    for i, call in enumerate(calls):
        if call[0] in spec.approve:
            request = scripts.request(call)
            lane.fork((f"{fork} approve", i)).tell(here, "interrupted", request)
            decisions[i] = scripts.answer(here.address, request)["decisions"][0]
    edits = {i: each["edited_action"] for i, each in decisions.items() if each["type"] == "edit"}
    if edits:
        calls = tuple(
            (edits[i]["name"], json.dumps(edits[i]["args"]), call[2]) if i in edits else call
            for i, call in enumerate(calls)
        )
        say(spec, here, lane, (*lane.history.pop().message[:3], calls))
    return calls, decisions


def called(spec: specs.Chat, here: Here, lane: Lane, asked: specs.Asked, number: int) -> Result:
    """Run a tool call."""
    name, args, call_id = asked
    inner = next((each for each in spec.agents if each[0].name == name), None)
    if inner:
        return Result(("tool", agent(*inner, here, lane, args, number), name, call_id, "success"))
    if name in ("exit", "break_loop") and getattr(spec, f"{name.partition('_')[0]}_tool"):
        return Result(("tool", json.loads(args)["final_result"], name, call_id, "success"), [name])
    there = targets(spec, here)
    if (target := name.removeprefix("transfer_to_")) in there:
        return Result(("tool", f"Transferred to {target}.", name, call_id, "success"), [name])
    if name not in spec.tools:
        return Result(("tool", scripts.unknown(spec, there, name), name, call_id, "error"))
    return tool(spec, here, lane, asked)


def agent(inner: specs.Spec, history: str, here: Here, lane: Lane, args: str, number: int) -> str:
    """Run an agent as a tool, and return what it says last."""
    inside, request = lane.fork(), Said(("human", json.loads(args)["request"], None))
    inside.input = [request]
    inside.history = [*(lane.history if history == "shared" else ()), request]
    before, path = len(inside.history), (*here.path, (inner.name, here.iteration))
    run(inner, Here(path, f"{here.address}/{inner.name}({number})", here.iteration), inside)
    lane.write(inside.written)
    said = inside.history[before:]
    return said[-1].message[1] if said else ""
