"""The trees of the notebooks as graphs for LangGraph Studio: the cells tagged `studio` make them."""

import json
import sys
from pathlib import Path
from typing import Any

import agentgraph as ag

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))  # where the notebooks find their scripts


def graph_of(notebook: str, **options: str) -> Any:
    """Return the graph of a notebook's `agent`; options name variables of the notebook."""
    cells = json.loads((FOLDER / f"{notebook}.ipynb").read_text())["cells"]
    tagged = [cell for cell in cells if "studio" in cell["metadata"].get("tags", [])]
    names: dict[str, Any] = {}
    exec("\n".join("".join(cell["source"]) + "\n" for cell in tagged), names)
    return ag.compile_agent(names["agent"], **{key: names[name] for key, name in options.items()})


first_agents = graph_of("01_first_agents")
loop = graph_of("02_loop_and_run_path")
parallel = graph_of("03_parallel_and_history")
questions = graph_of("04_questions_and_resume")
chat = graph_of("05_chat_tools_and_transfer")
supervisor = graph_of("06_supervisor")
plan_and_workflow = graph_of("07_plan_execute_and_workflow")
own_graphs = graph_of("08_your_own_graphs")
middleware = graph_of("09_middleware_and_structure")
values = graph_of("10_values_and_results", values="Values")
application = graph_of("11_in_your_application", context_schema="User")
data = graph_of("12_choose_and_repeat")
transfer = graph_of("13_transfer")
rewind = graph_of("14_rewind_and_compare")
active_run = graph_of("15_stop_steer_follow")
window = graph_of("16_window")
while_it_runs = graph_of("17_while_it_runs")
evaluation = graph_of("18_evaluation")
