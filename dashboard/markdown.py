"""Text from files in Markdown. Streamlit shows HTML as text; what is left is Markdown's own."""

from __future__ import annotations

_OWN = frozenset("\\`*_{}[]<>#$|~!")


def plain(text: str) -> str:
    """`text` so that Markdown shows it as it is: no picture, formula or emphasis, and no
    link but a bare address, which says where it leads."""
    return "".join(f"\\{c}" if c in _OWN else c for c in text)
