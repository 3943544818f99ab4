"""The page's module by itself: mounted in plain elements, several times, with a recorded backend."""

import json
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copytree
from threading import Thread
from typing import Any

import pytest
from helpers.web_page import Tab
from selenium.webdriver import Chrome

import agentgraph as ag
from agentgraph.window.calls import Window
from agentgraph.window.joined import PAGE, cell_module, joined_styles

INDEX = """<!DOCTYPE html><meta charset="utf-8">
<link rel="stylesheet" href="joined.css">
<style>.place { height: 500px } h1 { color: rgb(1, 2, 3); font-size: 50px }</style>
<h1>Around</h1><div class="place"></div><div class="place"></div>
"""
MOUNT = """
const done = arguments[arguments.length - 1];
const [answers, thread] = arguments;
window.left = 0;
window.asked = [];
const backend = {
  async call(name, args) {
    asked.push(name);
    if (name in answers) return structuredClone(answers[name]);
    throw Object.assign(new Error(`${name} is not recorded`), {kind: "Refused"});
  },
  follow(id, since, hear) {
    hear("found");
    hear("thread", structuredClone(answers.thread));
    hear("timeline", structuredClone(answers.timeline));
    return () => { left += 1; };
  },
};
import("./window.js").then(async ({mount}) => {
  window.mounted = [];
  for (const place of document.querySelectorAll(".place")) {
    mounted.push(await mount(place, backend, {thread}));
  }
  done(mounted.length);
});
"""
CELL = """
const done = arguments[arguments.length - 1];
const [answers, count] = arguments;
const listeners = [];
window.sent = [];
const model = {
  get: (name) => ({thread_id: "t", height: 420})[name],
  on: (name, hear) => listeners.push([name, hear]),
  off: (name, hear) => listeners.splice(listeners.findIndex((each) => each[1] === hear), 1),
  send(message) {
    sent.push(message);
    const say = (reply) => setTimeout(() => {
      const heard = listeners.filter(([name]) => name === "msg:custom");
      for (const [, hear] of heard) hear(structuredClone(reply));
    });
    const {view, call, follow} = message;
    if (call && message.name in answers) say({view, call, answer: answers[message.name]});
    else if (call) say({view, call, error: "not recorded", kind: "Refused"});
    for (const kind of follow ? ["thread", "timeline", "quiet", "new kind"] : []) {
      say({view, follow, kind, data: answers[kind] ?? {}});
    }
  },
};
window.listeners = listeners;
import("./joined.js").then(({default: widget}) => {
  window.cleanups = [...document.querySelectorAll(".place")].map((el) => widget.render({model, el}));
  done(cleanups.length);
});
"""


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """What a real window answers, by the names of its calls."""
    tree = ag.sequential("s", [ag.function_agent("a", lambda ctx: "Hum."), ag.human("boss", "Print?")])
    runner = ag.Runner(tree)
    runner.invoke("Go.", thread_id="t")
    window = Window(runner, "recorded")
    answers = {name: window.call(name, {"thread_id": "t"}) for name in ("thread", "timeline", "lines")}
    answers |= {name: window.call(name, {}) for name in ("about", "threads")}
    return json.loads(json.dumps(answers))  # type: ignore[no-any-return]


@pytest.fixture
def plain(chromium: Chrome, tmp_path: Path) -> Iterator[Tab]:
    """A page with two empty places, on a server that has the modules and nothing else."""
    copytree(PAGE, tmp_path / "page")
    (tmp_path / "page/index.html").write_text(INDEX)
    (tmp_path / "page/joined.js").write_text(cell_module())
    (tmp_path / "page/joined.css").write_text(joined_styles())

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "page")))
    Thread(target=server.serve_forever).start()
    (first,) = chromium.window_handles
    chromium.switch_to.new_window("tab")
    chromium.get(f"http://127.0.0.1:{server.server_port}/")
    yield Tab(chromium)
    chromium.execute_script("localStorage.clear()")
    chromium.close()
    chromium.switch_to.window(first)
    server.shutdown()
    server.server_close()


def shown(page: Tab) -> list[list[str]]:
    """Return for each window its title, its status and the places of its boxes."""
    boxes = "[...each.querySelectorAll('.box')].map(box => box.dataset.place).join()"
    texts = "each.querySelector('.title')?.innerText, each.querySelector('.pill')?.innerText"
    code = (
        f"return [...document.querySelectorAll('.agentgraph-window')].map(each => [{texts}, {boxes}])"
    )
    return [[str(part) for part in each] for each in page.script(code)]


WINDOW = ["recorded", "? Paused", "s,a,boss"]


def test_it_is_mounted_twice_on_a_page_and_leaves_the_page_alone(
    plain: Tab, recorded: dict[str, Any]
) -> None:
    assert plain.driver.execute_async_script(MOUNT, recorded, "t") == 2
    plain.wait_for(lambda: shown(plain) == [WINDOW, WINDOW])
    assert plain.script("return getComputedStyle(document.querySelector('h1')).fontSize") == "50px"
    ids = plain.script("return [...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids)) > 0

    first, second = plain.driver.find_elements("css selector", ".place")
    first.find_element("css selector", ".tab[data-tab=machine]").click()
    tabs = [
        each.find_element("css selector", ".right .tab[aria-selected=true]").get_attribute("data-tab")
        for each in (first, second)
    ]
    assert tabs == ["machine", "questions"]
    plain.script("for (const each of mounted) each.close()")
    assert plain.script("return left") == 2


def test_the_joined_module_is_a_widget_that_is_shown_twice_and_ended(
    plain: Tab, recorded: dict[str, Any]
) -> None:
    assert plain.driver.execute_async_script(CELL, recorded, 2) == 2
    plain.wait_for(lambda: shown(plain) == [WINDOW, WINDOW])
    heights = (
        "return [...document.querySelectorAll('.agentgraph-window')].map(each => each.offsetHeight)"
    )
    assert plain.script(heights) == [420, 420]
    views = {each["view"] for each in plain.script("return sent")}
    assert len(views) == 2

    def sent(key: str) -> list[Any]:
        return [each for each in plain.script("return sent") if key in each]

    assert {each["view"] for each in sent("follow")} == views
    plain.driver.execute_async_script(
        "const done = arguments[0]; Promise.all(cleanups.map((end) => end())).then(() => done())"
    )
    assert sorted(each["view"] for each in sent("unfollow")) == sorted(views)
    assert plain.script("return listeners.length") == 0
    assert shown(plain) == []


def test_keys_in_a_cell_are_kept_from_what_is_around(plain: Tab, recorded: dict[str, Any]) -> None:
    plain.script("window.pressed = 0; document.addEventListener('keydown', () => { pressed += 1; })")
    plain.driver.execute_async_script(CELL, recorded, 2)
    plain.wait_for(lambda: shown(plain) == [WINDOW, WINDOW])
    plain.find(".agentgraph-window .thread-search").send_keys("x")
    plain.find(".agentgraph-window .tool").send_keys("j")
    assert plain.script("return pressed") == 0
