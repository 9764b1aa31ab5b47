"""A page from its template: everything escaped, the style and the script inside it, nothing to load."""

from importlib import resources
from typing import Any

__all__ = ["page_of"]


def page_of(template: str, **facts: Any) -> str:
    """The page that a template makes of these facts."""
    import jinja2
    from markupsafe import Markup

    from openprior.report import words

    page = jinja2.Environment(autoescape=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    page.filters.update(percent=words.percent, count=words.count, plain=words.plain, names=words.names)
    # The style and the script are ours and hold no data; everything else is escaped.
    return page.from_string(_text(template)).render(
        style=Markup(_text("style.css")), script=Markup(_text("page.js")), **facts
    )


def _text(name: str) -> str:
    return resources.files("openprior.report").joinpath(name).read_text(encoding="utf-8")
