"""One HTML file with the page and its data inside: it opens from disk and needs no network.

The browser runs exactly the script and the style that Murmuration was built with; the file's own
policy names their digests. The data is a block that is never executed, in which `<` is written so
that no text can end it.
"""

from __future__ import annotations

import base64
import hashlib
import html
from functools import cache

import msgspec

from murmuration.dashboard import files


def embed(title: str, summary: str, data: object, is_served: bool = False) -> str:
    """The text of the file. `summary` is for readers without scripts. One that is served may ask
    whoever serves it, and nobody else."""
    policy, style, script = _parts()
    policy += "; connect-src 'self'" if is_served else ""
    text = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<link rel="icon" href="data:,">',
            f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>",
            f'<div id="app"></div>\n<noscript>{html.escape(summary)}</noscript>',
            f'<script type="application/json" id="data">{text}</script>',
            f"<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


@cache
def _parts() -> tuple[str, str, str]:
    """The policy, the style and the script."""
    style, script = (files.read(name).decode() for name in ("report.css", "report.js"))
    assert "</script" not in script and "</style" not in style, "it would end its own element"
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return policy, style, script


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
