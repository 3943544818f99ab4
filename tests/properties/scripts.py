"""What leaves, models, tools and people do and say: pure functions of specs, addresses and sights.

So it does not matter in what order things run, and who runs them: the reference or the builder.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any
from zlib import crc32

import specs

TRANSFERS = "You can hand the conversation over to another agent, who continues, with these tools:"
FAILED = "Error: {error}\n Please fix your mistakes."
PASSED_OVER = "Not carried out: of several transfers in one message only the last one is."
REJECTED = (
    "User rejected the tool call for `{name}` with id {id}. The tool was not executed. Do not retry "
    "this tool call unless the user explicitly requests it."
)
NOTICE = (
    "Note: a human reviewer replaced this tool call before it ran. The call recorded in your message "
    "is the one you produced, not the one that executed. This was intentional and authorized. Do not "
    "re-issue your original call."
)
NO_RESULT = "No result of this call was kept."
TRANSFERRED = "Transferred to "
DECISIONS = ["approve", "edit", "reject", "respond"]
MOST_HOPS = 3
"""How many dots an address may have before no model transfers any more."""
ITEM = "Look at ${{{}}} with {{x?}}."
"""The input of an item, by the name of its value."""
LISTS: tuple[Sequence[str], ...] = ((), ("one",), ("one", "and two"), ("a/b", "", "ü~"))
KEYS = ("k", 7, "long " * 10)
IN_TIME = "in time, or not"
"""What a person answers before a deadline, and what is the answer after it."""
TOO_LATE = "No decision was made before the deadline, so the call did not run."
ANSWERS = ("yes, @", "", None, 0, False, ["a", 1], {"sure": True})


def calls(leaf: specs.Leaf, address: str, sight: specs.Sight) -> tuple[specs.Call, ...]:
    """Return the calls of the activation at `address`, from what it sees at first."""
    match leaf:
        case specs.Function():
            script = leaf.scripts[crc32(address.encode()) % len(leaf.scripts)]
            calls = tuple(specs.Call(_at(address, call.items)) for call in script)
            failed = [call.fails and is_collected(address) for call in calls]
            return calls[: failed.index(True) + 1] if any(failed) else calls
        case specs.Human():
            asked = filled(leaf.prompt, sight.values)
            given = answer(address, asked)
            text = given if isinstance(given, str) else json.dumps(given)
            said = ("human", text, leaf.name)
            return specs.Call((("interrupted", asked),)), specs.Call((("message", said),))


def is_collected(address: str) -> bool:
    """Return whether a failure at an address is final, and becomes a message."""
    return "collect" in address


def is_timed(address: str) -> bool:
    """Return whether the question of a human, or for an approval, at an address has a deadline."""
    return address.rpartition("/")[2].startswith("timed")


def refusal(address: str, text: str) -> str:
    """Return what the check says of what an agent said last."""
    return f"{address} said {text!r}"


def answer(address: str, asked: Any) -> Any:
    """Return what the person answers: the same as the default, where there is a deadline."""
    chosen = crc32(f"{address} {asked}".encode())
    if isinstance(asked, dict) and "action_requests" in asked:
        actions = enumerate(asked["action_requests"])
        if is_timed(address):
            return {"decisions": [{"type": "reject", "message": TOO_LATE} for _ in actions]}
        return {"decisions": [_decision(action, chosen + i) for i, action in actions]}
    if is_timed(address) and "human" in address.rpartition("/")[2]:
        return IN_TIME
    given = ANSWERS[chosen % len(ANSWERS)]
    return given.replace("@", address) if isinstance(given, str) else given


def request(calls: Sequence[specs.Asked]) -> dict[str, Any]:
    """Return what a person is asked of the tool calls of a message."""
    return {
        "action_requests": [_action(name, json.loads(args)) for name, args, _ in calls],
        "review_configs": [{"action_name": call[0], "allowed_decisions": DECISIONS} for call in calls],
    }


def _action(name: str, args: Any) -> dict[str, Any]:
    description = f"Tool execution requires approval\n\nTool: {name}\nArgs: {args}"
    return {"name": name, "args": args, "description": description}


def notice(action: Mapping[str, Any], text: str) -> str:
    """Return the result of a call that a person edited."""
    ran = f"{action['name']} with arguments {json.dumps(action['args'])}"
    return f"{NOTICE} Executed instead: {ran}." + (f"\n\nTool response:\n{text}" if text else "")


def reply(chat: specs.Chat, address: str, sent: Sequence[specs.Rendered]) -> specs.Rendered:
    """Return what a chat agent's model says to what it was sent: more calls, or a text.

    The rounds that it was sent last say which message of its script comes next.
    """
    own = list(takewhile(lambda message: len(message) > 3, reversed(sent)))
    n = sum(message[0] == "ai" for message in own)
    read = crc32(repr(list(sent)).encode())
    script = chat.scripts[crc32(address.encode()) % len(chat.scripts)]
    calls = [
        _asked(chat, _resolved(does, address, sent), address, n, i)
        for i, does in enumerate(*script[n : n + 1] or [()])
    ]
    text = "" if calls and read % 2 else f"{chat.name} read {len(sent)}: {read:08x}"
    return ("ai", text, chat.name, tuple(calls)) if calls else ("ai", text, chat.name)


def _resolved(does: specs.Does, address: str, sent: Sequence[specs.Rendered]) -> specs.Does:
    """Return a call of the tool "transfer" with a number as one to a target, up to some hops."""
    number = does[0].removeprefix("transfer ")
    targets = re.findall(r"^- (transfer_to_\w+):", str(sent[0][1]), re.MULTILINE)
    if not number.isdigit():
        return does
    hops = max(map(int, re.findall(r"\[(\d+)\]", address)), default=0)  # or an iteration
    chosen = targets and hops <= MOST_HOPS
    return (targets[int(number) % len(targets)] if chosen else "nope"), ()


def _asked(chat: specs.Chat, does: specs.Does, address: str, n: int, i: int) -> specs.Asked:
    name, items = does
    if name in chat.tools:
        items = [[kind, _at(f"{address} {n}.{i}", data)] for kind, data in items]
        args = {"at": address, "n": n, "i": i, "does": items}
    elif name in [agent.name for agent, _ in chat.agents]:
        args = {"request": f"{address} {n}.{i}"}
    else:
        args = {"final_result": f"{address} {n}.{i}"} if name in ("exit", "break_loop") else {}
    return name, json.dumps(args), f"call_{i}"


def key(args: Mapping[str, Any]) -> str:
    """Return what names a call of a tool."""
    return f"{args['at']} {args['n']}.{args['i']}"


def unfinished(asked: specs.Asked) -> specs.Rendered:
    """Return the result of a call that has none."""
    return ("tool", NO_RESULT, asked[0], asked[2], "error")


def result(name: str, args: Mapping[str, Any], answers: Sequence[Any]) -> str:
    """Return the text that the tool of a call gives."""
    return f"{name} at {key(args)}: {json.dumps(answers)}"


def unknown(chat: specs.Chat, targets: Sequence[str], name: str) -> str:
    """Return the answer to a model that calls a tool that there is not."""
    own = [tool for tool, there in (("exit", chat.exit_tool), ("break_loop", chat.break_tool)) if there]
    agents = [agent.name for agent, _ in chat.agents]
    names = ", ".join([*chat.tools, *agents, *own, *(f"transfer_to_{target}" for target in targets)])
    return f"Error: {name} is not a valid tool, try one of [{names}]."


def transfers_text(targets: Sequence[str]) -> str:
    """Return what the instruction says of those to hand over to."""
    lines = [f"- transfer_to_{each}: the agent {each}" for each in targets]
    return "\n".join([TRANSFERS, *lines] if targets else [])


def filled(template: str, values: Mapping[str, Any]) -> str:
    """Return a template with its only placeholder filled."""
    return template.replace("{x?}", str(values.get("x", "")))


def stops(until: tuple[str, Any] | None, sight: specs.Sight) -> bool:
    """Return what the `until` of a loop says."""
    kind, limit = until or ("iteration", 1000)
    reached = {"iteration": sight.iteration, "messages": len(sight.messages)}
    return bool(sight.values.get(limit)) if kind == "value" else reached[kind] >= limit


def way(switch: specs.Switch, sight: specs.Sight) -> int:
    """Return the number of the way that a switch takes."""
    if switch.by == "value":
        return int(sight.values.get("y") != "")
    number = len(sight.messages) if switch.by == "messages" else sight.iteration or 0
    return number % len(switch.ways)


def runs(step: specs.Step, values: Mapping[str, Any], messages: Sequence[Any]) -> bool:
    """Return whether a step runs, by what there is before it."""
    odd = bool(len(messages) % 2)
    return {None: True, "value": bool(values.get("y")), "messages": odd}[step.when]


def items(each: specs.Each, sight: specs.Sight) -> Any:
    """Return the items of an each."""
    kind, what = each.over
    if kind == "value":
        return sight.values[what]
    number = len(sight.messages) if kind == "messages" else sight.iteration or 0
    return shaped(each.shape, LISTS[(what + number) % len(LISTS)])


def shaped(shape: str, values: Sequence[str]) -> Any:
    """Return items as a mapping, or as a list."""
    return dict(zip(KEYS, values, strict=False)) if shape == "mapping" else list(values)


def key_of(item: str) -> str:
    """Return the key of an item."""
    return f"{item}!"


def asked_for(ctx: Any) -> str:
    """Return the input of an item, as a function gives it."""
    return f"Look at {(ctx.item.number, ctx.item.key, ctx.item.value)}."


def fails_to_list(address: str) -> str:
    """Return the error of a function that gives items."""
    return f"{address} cannot list"


def fails_to_choose(address: str) -> str:
    """Return the error of a function that chooses."""
    return f"{address} cannot choose"


def _decision(action: dict[str, Any], chosen: int) -> dict[str, Any]:
    edits = {"at": "elsewhere", "does": [], "request": "something else", "final_result": "all"}
    args = {key: edits.get(key, value) for key, value in action["args"].items()}
    decisions = (
        {"type": "approve"},
        {"type": "reject"},
        {"type": "reject", "message": "not now"},
        {"type": "respond", "message": specs.RESPONSE},
        {"type": "edit", "edited_action": {"name": action["name"], "args": args}},
    )
    return decisions[chosen % (5 if args else 4)]


def _at(address: str, data: Any) -> Any:
    match data:
        case str():
            return data.replace("@", address)
        case tuple() | list():
            return type(data)(_at(address, item) for item in data)
        case dict():
            return {key: _at(address, item) for key, item in data.items()}
    return data
