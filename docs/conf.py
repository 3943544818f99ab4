"""Sphinx: the pages of this folder, the notebooks as tutorials, the reference from docstrings."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

project = "agentgraph"
author = "the agentgraph authors"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "extensions.docstrings",
    "extensions.code_links",
    "extensions.command_line",
    "extensions.tutorials",
    "extensions.llms",
]
exclude_patterns = ["_build", "extensions"]
templates_path: list[str] = []

html_theme = "furo"
html_title = "agentgraph"
pygments_dark_style = "one-dark"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # `make notebooks` keeps the outputs
nb_ipywidgets_js: dict[str, object] = {}  # no scripts from elsewhere
nb_mime_priority_overrides = [("html", "text/html", 5)]
suppress_warnings = ["mystnb.unknown_mime_type"]  # a drawing is HTML and Mermaid

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # expanded aliases fill screens; `Args:` says the types
python_use_unqualified_type_names = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
