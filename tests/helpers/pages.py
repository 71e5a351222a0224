"""The report's page, taken apart."""

import json
from html.parser import HTMLParser
from typing import Any

from keras_gpukit.records import Report, RunReport
from keras_gpukit.reports.html import render

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """A page taken apart; fails where its tags do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.style = ""
        self.scripts: list[str] = []
        self.texts: list[tuple[str, str | None, str]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            self.scripts.append(data)
        elif inside == "style":
            self.style += data
        else:
            self.text += data
            if self._open:
                self.texts.append((inside, self.tags[-1][1].get("class"), data))

    def all(self, *names: str) -> list[tuple[str, dict[str, str | None]]]:
        return [(tag, attrs) for tag, attrs in self.tags if tag in names]

    def text_of(self, tag: str, css_class: str) -> list[str]:
        """What stands right in elements of a class."""
        return [text for name, result, text in self.texts if (name, result) == (tag, css_class)]

    @property
    def figures(self) -> dict[str, dict]:
        return json.loads(self.scripts[0])

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def figure_of(page: Page, title: str) -> dict:
    """What Plotly draws under a heading."""
    labels = {
        attrs["id"]: attrs.get("aria-label") or "" for _, attrs in page.all("div") if "id" in attrs
    }
    (name,) = (name for name, text in labels.items() if text.startswith(f"{title}."))
    return page.figures[name]


def rendered(*shown: Report | RunReport, **options: Any) -> Page:
    """The page of a report, or of one with these runs."""
    [report] = shown if isinstance(shown[0], Report) else [Report("logs", 0.0, "1", shown)]
    return Page(render(report, plotly_src="plotly.js", **options))


def are_in_order(words: str, *parts: str) -> bool:
    """Whether parts of a page come one after another; fails if one is not there."""
    places = [words.index(part) for part in parts]
    return places == sorted(places)
