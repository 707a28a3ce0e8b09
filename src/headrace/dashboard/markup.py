"""HTML that cannot be broken by what is put into it: everything is escaped unless it was made here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_VOID = frozenset({"img", "input", "meta", "link", "br", "hr"})


class Html(str):
    """Text that is HTML already. Only `tag`, `join` and constants in this package make it."""

    __slots__ = ()


Child = Html | str | int | None


def tag(name: str, /, *children: Child, **attributes: str | int | float | bool | None) -> Html:
    """One element.

    Args:
        name: of the element.
        children: what is in it; text is escaped, None is left out.
        attributes: values are escaped; None and False leave an attribute out, True writes its name alone. A leading or
            trailing underscore is dropped (`class_`), other underscores become hyphens (`stroke_width`).
    """
    head = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{head}>")
    return Html(f"<{head}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Html:
    """The children one after the other; text is escaped."""
    return Html("".join(text(child) for child in children if child is not None))


def text(value: Child) -> Html:
    """A value as HTML text. Half a surrogate pair, which UTF-8 cannot say, becomes an escape that can be read."""
    if isinstance(value, Html):
        return value
    plain = str(value).encode("utf-8", "backslashreplace").decode()
    return Html(escape(plain, quote=True))


def _attribute(key: str, value: str | int | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.strip("_").replace("_", "-") if key != "viewBox" else key
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'
