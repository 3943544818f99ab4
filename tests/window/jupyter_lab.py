"""JupyterLab in a process of its own, and a notebook in it as a person sees it."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
from helpers.web_page import Tab
from selenium.webdriver import Chrome
from selenium.webdriver.remote.webelement import WebElement

PATIENCE = 60.0
_NOTEBOOK = "window.jupyterapp?.shell.currentWidget?.content"
_KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
_OUTPUTS = f"{_NOTEBOOK}.widgets[arguments[0]].node.querySelectorAll('.jp-OutputArea-output')"
_IN_WINDOW = (
    f"{_NOTEBOOK}?.widgets[arguments[0]].node.querySelectorAll('.agentgraph-window')[arguments[1]]"
    "?.querySelector(arguments[2])"
)
_WAITS = 2
FOLDERS = (
    *("HOME", "IPYTHONDIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"),
    *("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"),
)
PACKAGE = Path(__file__).parent.parent.parent


class JupyterLab:
    """A server, whose files and settings are in a folder.

    Attributes:
        url: Its address.
        token: What a request has to bring.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.token = folder, secrets.token_hex(16)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": port,
            "ServerApp.port_retries": 0,
            "ServerApp.root_dir": folder,
            "ServerApp.open_browser": False,
            "IdentityProvider.token": self.token,
            "LabApp.expose_app_in_browser": True,
            "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        env = os.environ | {name: str(folder / f".{name.lower()}") for name in FOLDERS}
        env |= {"PYTHONPATH": str(PACKAGE)}
        settings = folder / ".jupyterlab_settings_dir/@jupyterlab/apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
        self._log = (folder / ".log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--allow-root", *arguments],
            env=env,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._wait()

    def stop(self) -> None:
        """End it, and its kernels."""
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._log.close()

    def get(self, path: str) -> Any:
        """Return what its API answers."""
        request = urllib.request.Request(
            f"{self.url}/api/{path}", headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._process.poll() is None:
            try:
                self.get("status")
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError((self.folder / ".log").read_text())


class Notebook(Tab):
    """A notebook that is open in a tab, with its kernel.

    Attributes:
        path: Its file.
    """

    def __init__(self, driver: Chrome, lab: JupyterLab, name: str, cells: Sequence[str]) -> None:
        super().__init__(driver)
        self.lab, self.path = lab, lab.folder / f"{name}.ipynb"
        notebook: Any = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, self.path)
        self.open()

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Wait for a kernel, which may first have to import LangGraph: longer than for a page."""
        for _ in range(_WAITS):
            with suppress(AssertionError):
                return super().wait_for(condition)
        return super().wait_for(condition)

    # what it shows

    @property
    def kernel_status(self) -> str:
        return str(self.script(f"return {_KERNEL}?.status"))

    def output(self, cell: int) -> str:
        """Return the text of the visible outputs of a cell."""
        seen = "filter(each => each.checkVisibility()).map(each => each.innerText)"
        return str(self.script(f"return [...{_OUTPUTS}].{seen}.join(' ')", cell)).strip()

    def window(self, css: str, cell: int = 1, at: int = 0) -> str:
        """Return the text of the first element in a window, which is shown by a cell."""
        return str(self.script(f"return {_IN_WINDOW}?.innerText ?? ''", cell, at, css))

    def in_window(self, css: str, cell: int = 1, at: int = 0) -> WebElement:
        """Return an element in a window."""
        self.wait_for(lambda: self.script(f"return {_IN_WINDOW}", cell, at, css))
        found = self.script(f"return {_IN_WINDOW}", cell, at, css)
        assert isinstance(found, WebElement)
        return found

    # what one does

    def open(self) -> None:
        """Open it, or open it again."""
        self.driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        self.driver.get(f"{self.lab.url}/doc/tree/{self.path.name}?token={self.lab.token}")
        self.wait_for(lambda: self.script(f"return !!{_NOTEBOOK}"))
        self.wait_for(lambda: self.kernel_status == "idle")

    def command(self, name: str, **arguments: Any) -> None:
        """Do what a menu of JupyterLab does, without waiting for its end."""
        script = "window.jupyterapp.commands.execute(arguments[0], arguments[1]); return null"
        self.script(script, name, arguments)

    def runs(self, *cells: int) -> None:
        """Run cells; all of them if none is named."""
        if not cells:
            self.command("notebook:run-all-cells")
        for cell in cells:
            self.selects(cell)
            self.command("notebook:run-cell")

    def selects(self, cell: int) -> None:
        self.script(f"const notebook = {_NOTEBOOK}; notebook.activeCellIndex = arguments[0]", cell)

    def kernel(self, act: str) -> None:
        """Have the kernel do something: `restart()`, `shutdown()`, `requestExecute({code: ...})`."""
        self.script(f"{_KERNEL}.{act}; return null")

    def does(self, element: WebElement, *keys: str) -> None:
        """Click on an element, or type into it."""
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        if keys:
            element.send_keys(*keys)
        else:
            element.click()
