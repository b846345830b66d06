"""The page that asks for the token; it needs nothing but itself."""

from __future__ import annotations

from html import escape

WRONG = "This is not the token."
NO_MORE = "Too many wrong tokens; try again in a minute."

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{head}<title>Stallfree</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 24rem; margin: 15vh auto; padding: 0 1rem; }}
input, button {{ font: inherit; padding: .4rem .6rem; box-sizing: border-box; width: 100%; }}
button {{ margin-top: .6rem; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""
_FORM = """<h1>Stallfree</h1>
<p role="status">{message}</p>
<form method="post">
<label for="token">Token of this dashboard</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Open</button>
</form>
<p>Whoever started the dashboard has it: it is in <code>STALLFREE_DASHBOARD_TOKEN</code> or in the
file of <code>--token-file</code>.</p>"""


def login_page(message: str = "") -> str:
    """The form, with what was wrong before."""
    return _PAGE.format(head="", body=_FORM.format(message=escape(message)))


def bounce(url: str) -> str:
    """A page that loads `url` again at once: a browser keeps a strict cookie back when a link on
    another site leads here, but not when a page of ours does."""
    place = escape(url, quote=True)
    head = f'<meta http-equiv="refresh" content="0; url={place}">\n'
    return _PAGE.format(head=head, body=f'<p><a href="{place}">Open the dashboard</a></p>')
