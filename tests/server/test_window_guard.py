"""Nobody but a page of the server itself, with its token, reads or does anything."""

import re
from contextlib import closing
from http.client import HTTPConnection
from time import perf_counter
from urllib.parse import quote

import pytest
from window_server import Serve, Served


@pytest.fixture
def server(serve: Serve) -> Served:
    return serve("echo")


def test_a_request_must_name_the_loopback_address_and_its_port(server: Served) -> None:
    port = server.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", f"LOCALHOST:{port}"):
        assert server.ask("GET", "/", Host=host).status == 200
        assert server.raw("threads", "{}", Host=host).status == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", ""):
        for answer in (
            server.ask("GET", "/", Host=host),
            server.ask("GET", "/page/start.js", Host=host),
            server.raw("threads", "{}", Host=host),
            server.ask("GET", f"/news?thread=t&token={server.token}", Host=host),
        ):
            assert answer.status in (400, 403)
            assert server.token.encode() not in answer.body


def test_two_hosts_are_refused(server: Served) -> None:
    connection = HTTPConnection("127.0.0.1", server.port)
    connection.putrequest("GET", "/", skip_host=True)
    connection.putheader("Host", server.host)
    connection.putheader("Host", "evil.example")
    connection.endheaders()
    assert connection.getresponse().status in (400, 403)
    connection.close()


def test_other_pages_are_refused(server: Served) -> None:
    other = f"http://127.0.0.1:{server.port + 1}"
    for origin in ("http://evil.example", other, f"https://{server.host}", "null", ""):
        assert server.raw("threads", "{}", Origin=origin).status == 403
        path = f"/news?thread=t&token={server.token}"
        assert server.ask("GET", path, Origin=origin).status == 403
    for site in ("cross-site", "same-site", "none"):
        assert server.raw("threads", "{}", Sec_Fetch_Site=site).status == 403
    own = f"http://{server.host}"
    assert server.raw("threads", "{}", Origin=own, Sec_Fetch_Site="same-origin").status == 200
    preflight = server.ask("OPTIONS", "/call/start", Origin="http://evil.example")
    assert (preflight.status, "access-control-allow-origin" in preflight.headers) == (403, False)


def test_a_link_of_another_page_opens_the_page_and_nothing_else(server: Served) -> None:
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert server.ask("GET", f"/?token={server.token}", **link).status == 200
    for path in ("/page/start.js", f"/news?thread=t&token={server.token}"):
        assert server.ask("GET", path, **link).status == 403
    framed = server.ask("GET", "/").headers
    assert "frame-ancestors 'none'" in framed["content-security-policy"]
    assert (framed["x-frame-options"], framed["referrer-policy"]) == ("DENY", "no-referrer")


def test_nothing_is_told_or_done_without_the_token(server: Served) -> None:
    for token in ("", "wrong", server.token[:-1], server.token + "x", "\xfc", server.token.upper()):
        answer = server.ask(
            "POST",
            "/call/start",
            '{"text": "Go.", "thread_id": "t"}',
            X_Token=token,
            Content_Type="application/json",
        )
        assert (answer.status, answer.data["detail"].startswith("the token")) == (403, True)
        assert server.ask("GET", f"/news?thread=t&token={quote(token)}").status == 403
    by_query = server.ask(
        "POST", f"/call/threads?token={server.token}", "{}", Content_Type="application/json"
    )
    assert by_query.status == 403  # a form of another page cannot set headers
    assert server.ask("GET", "/news?thread=t").status == 403
    assert server.ask("GET", "/news?token=" + server.token).status == 422
    assert server.call("threads")["total"] == 0
    page = server.ask("GET", f"/?token={server.token}")
    assert server.token.encode() not in page.body
    assert "set-cookie" not in page.headers
    assert server.token not in server.running.err  # nothing that is logged has it


def test_only_json_is_a_call(server: Served) -> None:
    body = '{"text": "Go.", "thread_id": "t"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert server.raw("start", body, Content_Type=kind).status == 415
    assert server.ask("GET", "/call/threads").status == 405
    assert server.call("threads")["total"] == 0
    assert server.raw("threads", "{}", Content_Type="application/json; charset=utf-8").status == 200


def test_files_are_those_of_the_page_and_not_sent_twice(server: Served) -> None:
    for path in (
        *("/page/app.py", "/page/../app.py", "/page/..%2fapp.py", "/page/%2e%2e/app.py"),
        *("/page/", "/page/x.js", "/etc/passwd", "/page/%00", "//", "/call", "/page/a/b.js"),
    ):
        answer = server.ask("GET", path)
        assert (answer.status, b"import" in answer.body) == (404, False), path
    script = server.ask("GET", "/page/start.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["cache-control"] == "no-cache"
    again = server.ask("GET", "/page/start.js", If_None_Match=script.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_calls_on_one_connection_are_not_slower_than_on_new_ones(server: Served) -> None:
    def call(connection: HTTPConnection) -> None:
        headers = {"X-Token": server.token, "Content-Type": "application/json"}
        connection.request("POST", "/call/about", b"{}", headers)
        assert connection.getresponse().read()

    def connected() -> closing[HTTPConnection]:
        return closing(HTTPConnection("127.0.0.1", server.port))

    began = perf_counter()
    for _ in range(20):
        with connected() as connection:
            call(connection)
    between = perf_counter()
    with connected() as connection:
        for _ in range(20):
            call(connection)
    assert perf_counter() - between < 5 * (between - began)


def test_the_page_is_one_module(server: Served) -> None:
    page = server.ask("GET", "/").body
    assert re.findall(rb'src="(.*?)"', page) == [b"/page/joined.js"]
    module = server.ask("GET", "/page/joined.js")
    assert module.headers["content-type"].startswith("text/javascript")
    assert (b"openPage();" in module.body, b"\nimport" in module.body) == (True, False)


def test_hostile_names_are_data(server: Served) -> None:
    name = "</script><img src=x onerror=alert(1)>\u202e\r\nX: y"
    server.call("start", text=name, thread_id=name)
    assert server.until(name, "done")["thread_id"] == name
    (row,) = server.call("threads")["threads"]
    assert (row["thread_id"], row["first"]) == (name, name)
    answer = server.raw("threads", "{}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_every_refusal_is_logged(server: Served) -> None:
    server.raw("threads", "{}", Origin="http://evil.example")
    server.raw("threads", "{", X_Token="wrong")
    assert "POST /call/threads is rejected: other pages" in server.running.err
    assert "POST /call/threads is rejected: the token" in server.running.err
