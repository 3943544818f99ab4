"""The notebooks are the tutorials: they are copied to the page that lists them."""

import shutil
from typing import Any

from sphinx.application import Sphinx


def copy_notebooks(app: Sphinx, config: Any) -> None:
    """Copy the notebooks that are new, before the pages are found."""
    for source in sorted(app.srcdir.parent.glob("notebooks/*.ipynb")):
        target = app.srcdir / "tutorials" / source.name
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            shutil.copy2(source, target)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", copy_notebooks)
    return {"parallel_read_safe": True}
