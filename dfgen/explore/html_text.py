"""HTML of text that anybody may have written: whatever is no `Html` is escaped."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable
from typing import Any

from dfgen.errors import legible

_LONGEST = 200
_UNSAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escaped(text: object) -> Html:
    """Return text as markup that shows it; what is `Html` stays as it is.

    Example:
        >>> escaped("<b> & 'c'")
        '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    return text if isinstance(text, Html) else Html(html.escape(str(text)))


def markup(parts: Iterable[object]) -> Html:
    """Return several texts or `Html` as one."""
    return Html("".join(map(escaped, parts)))


def element(name: str, *inside: object, **attributes: object) -> Html:
    """Return an element of what is inside; `class_` is class, `data_rows` is data-rows.

    Example:
        >>> element("td", "a < b", class_="number")
        '<td class="number">a &lt; b</td>'
    """
    named = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    told = "".join(f' {key}="{escaped(value)}"' for key, value in named if value is not None)
    return Html(f"<{name}{told}>{markup(inside)}</{name}>")


def short(value: object) -> str:
    """Return a value as text that fits: long ones lose their middle, addresses their secrets."""
    return legible(str(value), _LONGEST)


def json_block(data: Any) -> Html:
    r"""Return JSON that may stand within <script>: no `</script>` nor `<!--` can be in it.

    Source: https://html.spec.whatwg.org/multipage/scripting.html, "Restrictions for contents of
    script elements".

    Example:
        >>> print(json_block({"a": "</script>"}))
        {"a":"\u003c/script\u003e"}
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Html(text.translate(_UNSAFE))


def source_hash(text: str) -> str:
    """Return how a Content-Security-Policy calls one inline script or style: by its hash."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
