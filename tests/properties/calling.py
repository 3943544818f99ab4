"""What the calls of tools come to, and which of them ends the agent."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import scripts
import specs
from lanes import Here, Lane


class Result(NamedTuple):
    """What a tool call comes to: the message, how it steers, and the values that it wrote.

    One that failed has left the wraps around it by the error.
    """

    message: specs.Rendered
    acts: Sequence[str] = ()
    written: Sequence[Mapping[str, Any]] = ()
    failed: bool = False


def decided(asked: specs.Asked, decision: dict[str, Any] | None) -> specs.Rendered | None:
    """Return the message by which a person answered in the place of a tool."""
    name, _, call_id = asked
    match decision:
        case {"type": "respond", "message": text}:
            return ("tool", text, name, call_id, "success")
        case {"type": "reject", "message": reason}:
            text = f"User rejected the tool call for `{name}` with reason: {reason}"
            return ("tool", text, name, call_id, "error")
        case {"type": "reject"}:
            return ("tool", scripts.REJECTED.format(name=name, id=call_id), name, call_id, "error")
    return None


def tool(spec: specs.Chat, here: Here, lane: Lane, call: specs.Asked) -> Result:
    """Run a tool that does what its arguments say; its actions count when it has ended."""
    name, text, call_id = call
    args, given, answers = json.loads(text), [], []
    fails = False
    for kind, data in args["does"]:
        if kind == "interrupted":
            lane.emit(here, kind, data)
            answers.append(scripts.answer(here.address, data))
        elif kind == "error" and spec.on_tool_error == "return":
            fails = True
        elif kind == "error":
            lane.emit(here, kind, data, kept=False)
        else:
            given.append((kind, data))
    lane.ran[scripts.key(args)] += 1
    if fails:
        text = scripts.FAILED.format(error=args["does"][-1][1])
        return Result(("tool", text, name, call_id, "error"), failed=True)
    for kind, data in given:
        if kind in ("custom", "values"):
            lane.emit(here, kind, data)
        lane.write(data if kind == "values" else {})
    said = "Done." if given else scripts.result(name, args, answers)
    return Result(("tool", said, name, call_id, "success"), [kind for kind, _ in given])


def ends(spec: specs.Chat, here: Here, results: Sequence[Result]) -> tuple[str | None, Result | None]:
    """Return how the results of a message steer, and which of them ends the agent."""
    for act in ("exit", "break_loop", "transfer_to_"):
        for result in reversed(results):
            for given in result.acts:
                if given.startswith(act) and (act != "break_loop" or here.in_loop):
                    return given, result
    direct = [
        each
        for each in results
        if each.message[2] in spec.return_directly and each.message[4] == "success"
    ]
    return None, direct[-1] if direct else None
