"""Hints about likely mistakes in a tree that can run."""

from agentgraph.agents.templates import parts_named_in, scoped_in
from agentgraph.tree.places import Tree
from agentgraph.tree.validation import value_names


def hints(tree: Tree) -> list[str]:
    """List likely mistakes, each as `where: what is wrong; what to do`.

    A template that names a part of a value, such as `{topic.name}`, is sent with that text unchanged;
    that is intended if the name is not the name of a value.
    """
    known = value_names(tree)
    templates = [
        (f"{place.name}: {option}", template)
        for place in tree.places
        for option, template in place.rules.texts(place.agent)
        if isinstance(template, str)
    ]
    of_parts = (
        f"{where} has {text}, which is sent unchanged; write {{{name}}}, or write the part to its own "
        f"value; write {{{text}}} to keep the braces"
        for where, template in templates
        for name, text in parts_named_in(template)
        if name in known
    )
    of_scopes = (
        f"{where} has {text}, which is sent unchanged; write {{{name}}}: values have no scopes as in "
        f"google-adk; write {{{text}}} to keep the braces"
        for where, template in templates
        for name, text in scoped_in(template)
    )
    return [*dict.fromkeys([*of_parts, *of_scopes])]
