"""The gate of a real server, tried with a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, WebSocket
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.dashboard.browser import looking
from tests.dashboard.browser.serving import Served, serving

TOKEN = "a token & its $igns"
UPLOAD = """async ([session, size, xsrf]) => {
    const form = new FormData();
    form.append('file', new Blob([new Uint8Array(size)]), 'x.csv');
    const known = document.cookie.match(/_streamlit_xsrf=([^;]*)/);
    const headers = xsrf ? {'X-Xsrftoken': known[1]} : {};
    const url = `/_stcore/upload_file/${session}/x`;
    return (await fetch(url, {method: 'PUT', body: form, headers})).status;
}"""
CONNECT = """() => new Promise((end) => {
    const socket = new WebSocket(`ws://${location.host}/_stcore/stream`);
    socket.onopen = () => end('open');
    socket.onerror = () => end('refused');
})"""


@pytest.fixture(scope="module")
def guarded(storage: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that asks for the token."""
    file = tmp_path_factory.mktemp("secret") / "token"
    file.write_text(f"{TOKEN}\n")
    with serving(storage, "--token-file", file) as known:
        yield known


def test_without_the_token_there_is_only_the_form(page: Page, guarded: Served) -> None:
    answer = page.goto(f"{guarded.url}/front?run=finished")
    assert answer is not None and answer.status == 401
    assert page.locator("input").count() == 1
    assert page.context.cookies() == []
    page.goto(f"{guarded.url}/_stcore/health")  # a page of this origin that may ask
    assert page.evaluate("() => fetch('/_stcore/host-config').then((a) => a.status)") == 401
    assert page.evaluate(UPLOAD, ["any", 10, False]) == 401


def test_without_the_token_no_websocket(page: Page, guarded: Served) -> None:
    page.goto(f"{guarded.url}/_stcore/health")  # a page of this origin that may connect
    assert page.evaluate(CONNECT) == "refused"


def test_a_wrong_token_then_the_right_one(page: Page, guarded: Served) -> None:
    page.goto(f"{guarded.url}/front?run=finished")
    page.get_by_label("Token").fill("not the token")
    page.get_by_role("button").click()
    assert page.get_by_role("status").inner_text() == "This is not the token."
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button").click()
    looking.settle(page)
    assert page.locator("h1").first.inner_text() == "Front"
    assert looking.query_of(page) == {"run": "finished"}
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
    (name,) = [name for name in cookies if name.startswith("stallfree-")]
    assert cookies[name]["httpOnly"] and cookies[name]["sameSite"] == "Strict"
    assert TOKEN not in json.dumps(list(cookies.values()))
    assert name not in page.evaluate("() => document.cookie")


def test_the_token_leaves_the_url(page: Page, guarded: Served) -> None:
    page.goto(f"{guarded.url}/front?run=finished&token=a%20token%20%26%20its%20%24igns")
    looking.settle(page)
    assert looking.query_of(page) == {"run": "finished"}
    assert page.evaluate("() => document.referrer") == ""


def test_a_link_on_another_site_opens_for_who_is_in(page: Page, guarded: Served) -> None:
    page.goto(f"{guarded.url}/?token=a%20token%20%26%20its%20%24igns")
    looking.settle(page)
    elsewhere = guarded.url.replace("127.0.0.1", "localhost")  # another site to a browser
    page.goto(elsewhere)
    assert page.locator("input").count() == 1  # cookies of the one are not of the other
    page.evaluate(
        "(url) => { const a = document.createElement('a'); a.href = url; a.click(); }",
        f"{guarded.url}/front?run=finished",
    )
    page.wait_for_url(f"{guarded.url}/**")
    looking.settle(page)
    assert page.locator("h1").first.inner_text() == "Front"


def test_uploads_are_limited_and_tied_to_the_page(page: Page, served: Served) -> None:
    sessions: list[str] = []

    def frame(payload: str | bytes) -> None:
        if isinstance(payload, bytes):
            message = ForwardMsg.FromString(payload)
            if message.WhichOneof("type") == "new_session":
                sessions.append(message.new_session.initialize.session_id)

    def websocket(opened: WebSocket) -> None:
        opened.on("framereceived", frame)

    page.on("websocket", websocket)
    looking.visit(page, served.url)
    assert page.evaluate(UPLOAD, [sessions[-1], 1000, True]) == 204
    assert page.evaluate(UPLOAD, [sessions[-1], 51 * 2**20, True]) == 413
    assert page.evaluate(UPLOAD, [sessions[-1], 1000, False]) == 403
    assert page.evaluate(UPLOAD, ["another", 1000, True]) == 400
