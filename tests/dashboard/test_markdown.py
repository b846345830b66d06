"""Text from files is shown as it is."""

from __future__ import annotations

from dashboard.markdown import plain


def test_markdown_of_a_file_is_text() -> None:
    assert plain("![x](http://a)") == "\\!\\[x\\](http://a)"
    assert plain("<b>$1_a</b>") == "\\<b\\>\\$1\\_a\\</b\\>"
    assert plain("TTFT p99 12.5 ms (limit 20 ms)") == "TTFT p99 12.5 ms (limit 20 ms)"
