"""Executes the notebooks offline and stores their outputs: `make notebooks`."""

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def execute(path: Path) -> None:
    """Execute a notebook in place, without data that differ between machines."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(FOLDER)}}
    options = {"record_timing": False, "coalesce_streams": True, "store_widget_state": False}
    NotebookClient(notebook, resources=resources, timeout=120, **options).execute()
    version = notebook.metadata.language_info.version
    notebook.metadata.language_info.version = ".".join(version.split(".")[:2])
    nbformat.write(notebook, path)


if __name__ == "__main__":
    os.environ.pop("OPENAI_API_KEY", None)
    for each in sorted(FOLDER.glob("*.ipynb")):
        execute(each)
