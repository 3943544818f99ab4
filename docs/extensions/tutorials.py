"""The notebooks are the tutorials: they are copied to the page that lists them."""

import shutil
from typing import Any

from sphinx.application import Sphinx


def copy_notebooks(app: Sphinx, config: Any) -> None:
    """Copy the notebooks that are new, and drop copies of those that are gone."""
    folder = app.srcdir / "tutorials"
    sources = {source.name: source for source in app.srcdir.parent.glob("notebooks/*.ipynb")}
    for copy in folder.glob("*.ipynb"):
        if copy.name not in sources:
            copy.unlink()
    for name, source in sources.items():
        target = folder / name
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            shutil.copy2(source, target)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", copy_notebooks)
    return {"parallel_read_safe": True}
