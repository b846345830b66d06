"""The gate before everything that is served: pages, downloads, uploads and websockets alike.

Whoever gives the token (in a form, or once as `?token=`) gets a cookie, which does not hold the
token, and is sent to the same page without it. Without a token, only requests for names of this
machine are answered: a page elsewhere whose name was made to point here (DNS rebinding) is not.
Requests that a page of another origin makes are always refused, other ports of this machine
included, which share its cookies.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections import deque
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.entrance.access import Access
from dashboard.entrance.login import NO_MORE, WRONG, bounce, login_page

HEALTH = "/_stcore/health"
TOKEN = "token"
"""name of the form's field and of the URL's parameter"""
COOKIE_LIVES_S = 24 * 3600
MOST_WRONG, WITHIN_S = 10, 60.0
_MOST_FORM_BYTES = 8192
_MOST_ADDRESSES = 10_000
_HEADERS = {
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'self' data: blob:; frame-ancestors 'self'; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "base-uri 'self'; form-action 'self'; object-src 'none'",
}
"""of every answer that has none of its own. A token in a URL is in no referrer that leaves, and a
page asks no other server for anything; Streamlit's own scripts need what is called unsafe"""


class Gate:
    """ASGI middleware: `app` behind `access`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access
        self._secret = secrets.token_bytes(32)
        self._wrong: dict[str, deque[float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http":
            answer = await self._answer(scope, receive)
            await (answer or self.app)(scope, receive, _with_headers(send))
        else:
            await self.app(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = HTTPConnection(scope)
        if _misdirected(asked, self.access) is None and self._is_in(asked):
            await self.app(scope, receive, send)
            return
        await receive()  # the wish to connect
        await send({"type": "websocket.close", "code": 1008})  # before it is accepted: HTTP 403

    async def _answer(self, scope: Scope, receive: Receive) -> Response | None:
        """What is answered in the place of the app; None lets the request through."""
        request = Request(scope, receive)
        if scope["path"] == HEALTH and request.method in {"GET", "HEAD"}:
            return None
        why = _misdirected(request, self.access)
        if why is not None:
            return PlainTextResponse(why + "\n", 403)
        if self._is_in(request):
            with_token = self.access.token is not None and TOKEN in request.query_params
            return _to_itself(request) if with_token else None
        if self.access.token is None:
            return PlainTextResponse("This dashboard is reached through its proxy only.\n", 401)
        return await self._let_in(request, self.access.token)

    async def _let_in(self, request: Request, token: str) -> Response:
        """With the token the cookie; without it the form."""
        given = request.query_params.get(TOKEN)
        if request.method == "POST":
            given = await _in_form(request)
        if given is None:
            crossed = request.headers.get("sec-fetch-site") not in {None, "same-origin", "none"}
            return _page(bounce(_itself(request)) if crossed else login_page(), 401)
        address = request.client.host if request.client else ""
        if self._too_many(address):
            return _page(login_page(NO_MORE), 429, {"Retry-After": str(int(WITHIN_S))})
        if not hmac.compare_digest(self._digest(given), self._digest(token)):
            self._wrong[address].append(time.monotonic())
            return _page(login_page(WRONG), 401)
        answer = _to_itself(request)
        issued = str(int(time.time()))
        answer.set_cookie(
            self.access.cookie,
            f"{issued}.{self._digest(issued)}",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    def _is_in(self, asked: HTTPConnection) -> bool:
        """Whether the request brings what is demanded."""
        if self.access.proxy_header is not None:
            return bool(asked.headers.get(self.access.proxy_header, "").strip())
        if self.access.token is None:
            return True
        issued, _, digest = asked.cookies.get(self.access.cookie, "").partition(".")
        if not hmac.compare_digest(digest.encode(), self._digest(issued).encode()):
            return False
        return time.time() - int(issued) < COOKIE_LIVES_S

    def _digest(self, text: str) -> str:
        """Of equal length for all texts, and worth nothing to another process."""
        return hmac.new(self._secret, text.encode(errors="replace"), hashlib.sha256).hexdigest()

    def _too_many(self, address: str) -> bool:
        """Whether too many wrong tokens came from `address` lately."""
        times = self._wrong.setdefault(address, deque(maxlen=MOST_WRONG))
        while len(self._wrong) > _MOST_ADDRESSES:
            del self._wrong[next(iter(self._wrong))]
        return len(times) == MOST_WRONG and time.monotonic() - times[0] < WITHIN_S


def _misdirected(asked: HTTPConnection, access: Access) -> str | None:
    """Why the request is not for this server or not from its pages, one line."""
    host = asked.headers.get("host", "").lower()
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if access.hosts and name not in access.hosts:
        return (
            f"Without a token this dashboard answers to {', '.join(sorted(access.hosts))} only, "
            f"not to {name!r}, which may be another site's name for this machine (DNS rebinding)."
        )
    origin = asked.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host:
        why = (
            f"A page of {origin!r} asked for {host!r}; only the dashboard's own pages may. Behind "
            "a proxy: it must pass the Host header on."
        )
        logging.getLogger(__name__).warning(why)
        return why
    return None


async def _in_form(request: Request) -> str | None:
    """The token in the form that was sent, None without one."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_FORM_BYTES:
            return None
    return parse_qs(body.decode(errors="replace")).get(TOKEN, [None])[0]


def _itself(request: Request) -> str:
    """The URL of the request without a token, on this server whatever its path is."""
    query = [(k, v) for k, v in request.query_params.multi_items() if k != TOKEN]
    path = quote("/" + request.scope["path"].lstrip("/\\"))
    return f"{path}?{urlencode(query)}" if query else path


def _to_itself(request: Request) -> Response:
    return RedirectResponse(_itself(request), 303, {"Cache-Control": "no-store"})


def _page(html: str, status: int, headers: dict[str, str] | None = None) -> Response:
    policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"
    own = {"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"}
    return HTMLResponse(html, status, {"Cache-Control": "no-store", **own, **(headers or {})})


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: Any = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent
