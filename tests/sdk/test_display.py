# SPDX-License-Identifier: Apache-2.0
"""How results show themselves: what ran in the box must not become alive in a notebook."""
import base64
import html
import html.parser
import re

import pytest

import glovebox
from glovebox import _display

HOSTILE = [
    "<script>alert(1)</script>", "</pre><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "' onmouseover='alert(1)",
    "</iframe><script>alert(1)</script>", "&lt;script&gt;", "<!--", "]]>", "\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07", "\x00<b>\x00", "\ud800<b>",
    "<LINK rel=dns-prefetch href=//secret.example>", "<meta http-equiv=refresh content='0;url=//x'>", "<base href=//x>", "javascript:alert(1)",
]
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


class Page(html.parser.HTMLParser):
    """Elements and attributes of a page, as a browser would find them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.text = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


ALLOWED = {"div": {"class"}, "pre": {"style"}, "img": {"style", "src"}, "iframe": {"sandbox", "referrerpolicy", "style", "srcdoc"}}


def check(text):
    """Only our own elements, with our own attributes; the frames are returned."""
    page = Page(text)
    for tag, attrs in page.tags:
        assert tag in ALLOWED and set(attrs) <= ALLOWED[tag], (tag, attrs)
        if tag == "img":
            assert re.fullmatch(r"data:image/(png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=]*", attrs["src"]), attrs
        if tag == "iframe":
            assert attrs["sandbox"] == ""
    return page, [attrs["srcdoc"] for tag, attrs in page.tags if tag == "iframe"]


def result(**raw):
    return glovebox.Result({"verdict": {"kind": "ok", "message": ""}, **raw})


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    evil = {"text/plain": text, "text/markdown": text, "text/latex": text}
    shown = result(stdout=text, stderr=text, results=[{"main": True, "data": evil}, {"data": {"text/plain": text}}, {"data": {text: text}}],
                   error={"name": text, "value": text, "traceback": text}, verdict={"kind": text, "message": text})
    page, frames = check(shown._repr_html_())
    assert not frames
    if "<script" in text:
        assert "".join(page.text).count("alert(1)") == 8  # it is all there to be read
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", shown._repr_html_())
    shown._repr_html_().encode()  # no lone surrogates
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", shown._repr_mimebundle_()["text/plain"])


@pytest.mark.parametrize("text", HOSTILE)
def test_html_of_the_code_is_shown_in_a_sealed_frame_only(text):
    shown = result(results=[{"main": True, "data": {"text/html": f"<table><tr><td>{text}</td></tr></table>", "text/plain": "t"}}])
    page, frames = check(shown._repr_html_())
    assert len(frames) == 1
    assert "alert(1)" not in "".join(page.text)
    inner = Page(frames[0])
    # Ours come first: nothing can be loaded, and nobody can say otherwise later.
    assert inner.tags[0][0] == "meta" and inner.tags[0][1]["content"].startswith("default-src 'none'")
    assert [tag for tag, _ in inner.tags if tag in ("meta", "link", "base")] == ["meta", "meta"]
    assert ("table", {}) in inner.tags
    frames[0].encode()


def test_pictures_are_pictures_and_nothing_else():
    svg = "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>"
    shown = result(results=[{"data": {"image/png": {"base64": base64.b64encode(PNG).decode()}}}, {"data": {"image/svg+xml": svg}},
                            {"data": {"image/x-odd\"><script>": "x"}}, {"data": {"image/png": {"base64": "\"><script>alert(1)</script>"}}},
                            {"data": {"image/png": 5, "text/plain": "p"}}])
    page, frames = check(shown._repr_html_())
    assert not frames and [attrs["src"].partition(";")[0] for tag, attrs in page.tags if tag == "img"] == ["data:image/png", "data:image/svg+xml"]
    assert [image.mime for image in shown.images][:2] == ["image/png", "image/svg+xml"] and shown.images[0].data == PNG
    assert shown._repr_png_() is None  # there are several
    one = result(results=[{"data": {"image/png": {"base64": base64.b64encode(PNG).decode()}}}])
    assert one._repr_png_() == PNG and one._repr_mimebundle_()["image/png"] == PNG
    check(one.images[0]._repr_html_())
    check(one.results[0]._repr_html_())


def test_sizes_are_bounded():
    huge = "<" * 3_000_000
    shown = result(stdout=huge, stderr=huge, results=[{"data": {"text/html": huge}}, {"data": {"image/png": {"base64": base64.b64encode(bytes(20_000_000)).decode()}}}])
    assert len(shown._repr_html_()) < 2_000_000
    assert len(repr(shown)) < 400
    assert "more characters" in shown._repr_html_()


def test_repr_is_short_and_says_what_matters():
    assert repr(result()) == "<Result ok>"
    assert repr(result(stdout="a" * 1000, verdict={"kind": "timeout", "message": "m"})).startswith("<Result timeout stdout='aaa")
    assert repr(result(results=[{"main": True, "data": {"text/plain": "42"}}])) == "<Result ok text='42'>"
    assert "ZeroDivisionError" in repr(result(error={"name": "ZeroDivisionError", "value": "division by zero"}, verdict={"kind": "error"}))


def test_mimebundles_obey():
    shown = result(stdout="a")
    assert set(shown._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert set(shown._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}
    assert set(shown._repr_mimebundle_(exclude={"text/plain"})) == {"text/html"}
    assert shown._repr_mimebundle_()["text/plain"] == "a"


def test_colours_of_a_terminal_are_taken_out():
    assert _display.plain("\x1b[31mred\x1b[0m\r\nnext\rover") == "red\nnext\nover"


def test_values():
    value = glovebox.Value({"application/json": {"a": 1}, "text/html": "<b>", "image/jpeg": {"base64": "/9g="}, "text/plain": "p"}, True)
    assert (value.json, value.html, value.jpeg, value.text, value.png, value.main) == ({"a": 1}, "<b>", b"\xff\xd8", "p", None, True)
    assert glovebox.Value({"application/json": "[1]"}).json == [1] and glovebox.Value({"application/json": "[1"}).json == "[1"
    assert glovebox.Value({"image/png": {"base64": "not base64!"}}).images == []
    assert html.unescape(glovebox.Value({"text/plain": "<b>"})._repr_html_()).count("<b>") == 1
