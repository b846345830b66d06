"""What a server demands of browsers, by its address and what it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.entrance.access import TOKEN_VARIABLE, access_for, url_of
from profiler.errors import InputError

TOKEN = "sixteen-letters-"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_this_machine_needs_nothing_but_its_own_names(address: str) -> None:
    access = access_for(address, 8501, None, None, {})
    assert access.token is None and access.proxy_header is None
    assert {"localhost", "127.0.0.1", "[::1]"} <= access.hosts
    assert url_of(address, 8501)[len("http://") : -len(":8501")] in access.hosts


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "example.org", "::ffff:7f00:1"])
def test_elsewhere_something_is_needed(address: str) -> None:
    with pytest.raises(InputError) as error:
        access_for(address, 8501, None, None, {})
    for way in (TOKEN_VARIABLE, "--token-file", "--proxy-header"):
        assert way in str(error.value)


def test_a_token_of_the_environment_or_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}in-a-file\n")
    assert access_for("0.0.0.0", 1, None, None, {TOKEN_VARIABLE: TOKEN}).token == TOKEN
    given = access_for("0.0.0.0", 1, tmp_path / "token", None, {TOKEN_VARIABLE: TOKEN})
    assert given.token == f"{TOKEN}in-a-file"
    assert given.hosts == frozenset()


def test_a_token_is_never_shown() -> None:
    access = access_for("127.0.0.1", 1, None, None, {TOKEN_VARIABLE: TOKEN})
    assert access.token == TOKEN
    assert TOKEN not in repr(access) + access.in_words()


@pytest.mark.parametrize("token", ["", "short", TOKEN[:15], f"  {TOKEN[:15]}  "])
def test_a_short_token_is_refused_even_here(token: str) -> None:
    with pytest.raises(InputError, match="at least 16 are needed") as error:
        access_for("127.0.0.1", 1, None, None, {TOKEN_VARIABLE: token})
    assert not token.strip() or token.strip() not in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        access_for("0.0.0.0", 1, tmp_path / "absent", None, {})
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    with pytest.raises(InputError, match="not UTF-8"):
        access_for("0.0.0.0", 1, tmp_path / "binary", None, {})


def test_the_header_of_a_proxy() -> None:
    access = access_for("0.0.0.0", 1, None, "X-Forwarded-User", {})
    assert access.proxy_header == "X-Forwarded-User"
    assert "must strip it" in access.in_words()


def test_two_ways_in_are_one_too_many() -> None:
    with pytest.raises(InputError, match="remove one"):
        access_for("0.0.0.0", 1, None, "X-Forwarded-User", {TOKEN_VARIABLE: TOKEN})


@pytest.mark.parametrize("name", ["", "two words", "a:b", "höflich", "a\nb"])
def test_a_header_that_cannot_be(name: str) -> None:
    with pytest.raises(InputError, match="name of a header"):
        access_for("0.0.0.0", 1, None, name, {})
