"""A page from its template: everything escaped, the style and the script inside it, nothing to load."""

from functools import cache
from importlib import resources
from typing import Any

__all__ = ["page_of"]


def page_of(template: str, **facts: Any) -> str:
    """The page that a template makes of these facts."""
    from markupsafe import Markup

    # The style and the script are ours and hold no data; everything else is escaped.
    page: str = _read(template).render(
        style=Markup(_text("style.css")), script=Markup(_text("page.js")), **facts
    )
    return page


@cache
def _read(template: str) -> Any:
    import jinja2

    from openprior.report import words

    page = jinja2.Environment(autoescape=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    page.filters.update(percent=words.percent, count=words.count, plain=words.plain, names=words.names)
    return page.from_string(_text(template))


def _text(name: str) -> str:
    return resources.files("openprior.report").joinpath(name).read_text(encoding="utf-8")
