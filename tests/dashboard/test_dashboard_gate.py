"""The gate: what passes it, by HTTP and by websocket, and what it answers otherwise."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from dashboard.entrance import gate
from dashboard.entrance.access import Access
from dashboard.entrance.gate import COOKIE_LIVES_S, HEALTH, MOST_WRONG, WITHIN_S, Gate

TOKEN = "a token with ünicode & spaces"
WITH_TOKEN = Access(TOKEN, cookie="stallfree-8501")
LOCAL = Access(hosts=frozenset({"localhost", "127.0.0.1", "[::1]"}))
PROXY = Access(proxy_header="X-Forwarded-User")


async def _hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"hello {request.url.query}")


async def _talk(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("hello")
    await websocket.close()


def behind(access: Access, base: str = "http://localhost:8501") -> TestClient:
    routes = [
        Route("/{path:path}", _hello, methods=["GET", "HEAD", "PUT", "DELETE"]),
        WebSocketRoute("/_stcore/stream", _talk),
    ]
    return TestClient(Gate(Starlette(routes=routes), access), base, follow_redirects=False)


def talks(client: TestClient, **headers: str) -> bool:
    """Whether a websocket is accepted."""
    url = f"ws://{client.base_url.netloc.decode()}/_stcore/stream"
    try:
        with client.websocket_connect(url, headers=headers) as websocket:
            return bool(websocket.receive_text() == "hello")
    except WebSocketDisconnect:
        return False


def log_in(client: TestClient, path: str = "/front?run=a") -> None:
    assert client.post(path, data={"token": TOKEN}).status_code == 303


@pytest.mark.parametrize("access", [WITH_TOKEN, PROXY, LOCAL])
def test_health_is_open(access: Access) -> None:
    answer = behind(access, "http://example.org").get(HEALTH)
    assert answer.status_code == 200
    assert behind(access, "http://example.org").put(HEALTH).status_code in {401, 403}


@pytest.mark.parametrize("path", ["/", "/front", "/media/x", "/_stcore/host-config", HEALTH + "/x"])
def test_without_the_token_nothing_is_served(path: str) -> None:
    client = behind(WITH_TOKEN)
    answer = client.get(path)
    assert answer.status_code == 401
    assert "hello" not in answer.text and 'type="password"' in answer.text
    assert client.put("/_stcore/upload_file/a/b", content=b"x").status_code == 401
    assert not talks(client)


def test_the_form_gives_a_cookie_and_the_same_page() -> None:
    client = behind(WITH_TOKEN)
    answer = client.post("/front?run=a%26b&point=17", data={"token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/front?run=a%26b&point=17"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("stallfree-8501=")
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
    assert TOKEN not in cookie
    assert client.get("/front").status_code == 200
    assert client.put("/_stcore/upload_file/a/b", content=b"x").status_code == 200
    assert talks(client)


def test_the_token_in_the_url_is_taken_out_of_it() -> None:
    client = behind(WITH_TOKEN)
    answer = client.get("/front", params={"run": "a", "token": TOKEN})
    assert answer.status_code == 303 and answer.headers["location"] == "/front?run=a"
    again = client.get("/", params={"token": "whatever"})  # who is in needs none
    assert again.status_code == 303 and again.headers["location"] == "/"


@pytest.mark.parametrize("path", ["//example.org/", "/\\example.org/"])
def test_nobody_is_sent_to_another_server(path: str) -> None:
    answer = behind(WITH_TOKEN).post("http://localhost:8501" + path, data={"token": TOKEN})
    assert answer.headers["location"].startswith("/example.org")


def test_over_https_the_cookie_stays_there() -> None:
    answer = behind(WITH_TOKEN, "https://example.org").post("/", data={"token": TOKEN})
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize("token", ["", "a token", TOKEN + " ", TOKEN.upper(), "x" * 9000])
def test_a_wrong_token(token: str) -> None:
    client = behind(WITH_TOKEN)
    assert client.post("/", data={"token": token}).status_code == 401
    assert client.get("/", params={"token": token}).status_code == 401
    assert "set-cookie" not in client.post("/", data={"token": token}).headers
    assert not talks(client)


def test_wrong_tokens_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(gate.time, "monotonic", lambda: now)
    client = behind(WITH_TOKEN)
    for _ in range(MOST_WRONG):
        assert client.post("/", data={"token": "wrong"}).status_code == 401
    answer = client.post("/", data={"token": TOKEN})
    assert answer.status_code == 429 and answer.headers["retry-after"] == "60"
    now += WITHIN_S
    log_in(client)


def test_a_cookie_is_of_this_process_and_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    client = behind(WITH_TOKEN)
    log_in(client)
    other = behind(WITH_TOKEN)
    other.cookies = client.cookies
    assert other.get("/").status_code == 401
    issued, _, digest = client.cookies["stallfree-8501"].partition(".")
    other = behind(WITH_TOKEN)
    for forged in (f"{int(issued) + 1}.{digest}", "", ".", f"{issued}.", "x.é".encode().decode()):
        answer = other.get("/", headers={"Cookie": f"stallfree-8501={forged}".encode()})
        assert answer.status_code == 401
    later = float(issued) + COOKIE_LIVES_S + 1
    monkeypatch.setattr(gate.time, "time", lambda: later)
    assert client.get("/").status_code == 401


def test_a_link_on_another_site_is_loaded_again_from_here() -> None:
    answer = behind(WITH_TOKEN).get("/front?run=%22x", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 401
    assert '<meta http-equiv="refresh" content="0; url=/front?run=%22x">' in answer.text


def test_the_header_of_the_proxy_lets_in() -> None:
    client = behind(PROXY, "https://dash.example.org")
    assert client.get("/").status_code == 401
    assert client.get("/", headers={"X-Forwarded-User": " "}).status_code == 401
    assert client.post("/", data={"token": ""}).status_code == 401
    assert client.get("/", headers={"x-forwarded-user": "ada"}).status_code == 200
    assert not talks(client)
    assert talks(client, **{"X-Forwarded-User": "ada"})


@pytest.mark.parametrize("host", ["localhost:8501", "127.0.0.1", "[::1]:8501", "LOCALHOST:1"])
def test_here_without_a_token_own_names_are_answered(host: str) -> None:
    client = behind(LOCAL)
    assert client.get("/", headers={"Host": host}).status_code == 200
    assert talks(client, Host=host)


@pytest.mark.parametrize(
    "host", ["example.org", "localhost.example.org:8501", "", "[::2]", "192.0.2.1"]
)
def test_here_without_a_token_other_names_are_refused(host: str) -> None:
    client = behind(LOCAL)
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == 403
    assert "DNS rebinding" in answer.text and answer.text.count("\n") == 1
    assert not talks(client, Host=host)


@pytest.mark.parametrize("access", [LOCAL, WITH_TOKEN])
@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://example.org", "null"])
def test_pages_of_other_origins_get_nothing(access: Access, origin: str) -> None:
    client = behind(access)
    if access.token:
        log_in(client)
    assert talks(client, Origin="http://localhost:8501")
    assert not talks(client, Origin=origin)
    for answer in (
        client.get("/", headers={"Origin": origin}),
        client.put("/_stcore/upload_file/a/b", content=b"x", headers={"Origin": origin}),
        client.post("/", data={"token": TOKEN}, headers={"Origin": origin}),
    ):
        assert answer.status_code == 403


@pytest.mark.parametrize(("access", "status"), [(LOCAL, 200), (WITH_TOKEN, 401)])
def test_headers_of_every_answer(access: Access, status: int) -> None:
    answer = behind(access).get("/")
    assert answer.status_code == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert "frame-ancestors" in answer.headers["content-security-policy"]
