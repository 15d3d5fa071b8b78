# SPDX-License-Identifier: Apache-2.0
"""How results show themselves in a notebook and at a prompt.

A notebook's page has the rights of whoever reads it, and what ran in the box is trusted with none of them. So:

* text is escaped, and what would move a terminal's cursor or colour it is taken out;
* pictures are <img> with a data: address, made anew from the bytes. In an <img> an SVG runs no scripts and loads nothing;
* HTML is shown in a frame of its own, with sandbox="" (no scripts, no forms, no other windows, no automatic navigation, an origin of its own)
  and a content security policy without sources, so that it cannot load anything, which would carry data out of a box without a network.
  Elements that such a policy does not cover (<link> for its lookups of names, <meta>, <base>) are turned into text;
* everything has a size at which it is cut.
"""
from __future__ import annotations

import base64
import html
import re
from typing import TYPE_CHECKING, List, Optional

if TYPE_CHECKING:
    from .findings import Finding, Findings
    from .results import Result, Value

TEXT_MAX = 100_000  # characters of a text that are shown
HTML_MAX = 1_000_000
IMAGE_MAX = 16_000_000  # bytes
SHORT_MAX = 60

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml")

# CSI and OSC sequences, other escapes, and then whatever control characters are left.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_REFUSED = re.compile(r"<(?=/?(?:link|meta|base)\b)", re.IGNORECASE)

_FRAME_HEAD = ('<!DOCTYPE html><meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'; '
               'img-src data:; font-src data:"><meta http-equiv="x-dns-prefetch-control" content="off">')
_PRE = '<pre style="margin:0;max-height:30em;overflow:auto;white-space:pre-wrap;{}">{}</pre>'


def shorten(text: Optional[str], most: int = SHORT_MAX) -> str:
    """As repr(), cut."""
    if text is None:
        return "None"
    return repr(text) if len(text) <= most else repr(text[:most]) + "..."


def plain(text: str) -> str:
    """Without what is not text, and not too long."""
    cut = len(text) > TEXT_MAX
    # A carriage return begins the line anew; what it had is overwritten on a terminal.
    shown = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _ESCAPES.sub("", text[:TEXT_MAX]).replace("\r\n", "\n").replace("\r", "\n"))
    return f"{shown}\n... {len(text) - TEXT_MAX} more characters" if cut else shown


def text_html(text: str, style: str = "") -> str:
    return _PRE.format(style, html.escape(plain(text), quote=True))


def image_html(mime: str, data: bytes) -> str:
    if mime not in PICTURES or len(data) > IMAGE_MAX:
        return text_html(f"{mime}, {len(data)} bytes")
    return f'<img style="max-width:100%" src="data:{mime};base64,{base64.b64encode(data).decode()}">'


def frame_html(page: str) -> str:
    """HTML of the box, sealed."""
    if len(page) > HTML_MAX:
        return text_html(f"text/html, {len(page)} characters: too much to show")
    page = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _REFUSED.sub("&lt;", page))
    height = min(max(page.count("\n"), page.lower().count("<tr"), 4), 24) * 1.6 + 1
    return (f'<iframe sandbox="" referrerpolicy="no-referrer" style="width:100%;height:{height:.1f}em;border:0;resize:vertical;overflow:auto" '
            f'srcdoc="{html.escape(_FRAME_HEAD + page, quote=True)}"></iframe>')


def value_html(value: "Value") -> str:
    """The richest form of a value that can be shown safely."""
    for image in value.images:
        if image.mime in PICTURES:
            return image_html(image.mime, image.data)
    if value.html is not None:
        return frame_html(value.html)
    for text in (value.markdown, value.latex, value.text):
        if text is not None:
            return text_html(text)
    return text_html(", ".join(value.data))


def finding_text(finding: "Finding") -> str:
    """Rule and place, what is wrong, and what to do about it, on lines of their own."""
    head = f"{finding.rule}, {finding.place}" if finding.place else finding.rule
    return "\n".join(part for part in (head, f"  {finding.message}", f"  {finding.remedy}" if finding.remedy else "") if part)


def _listed(title: str, findings: "List[Finding]", more: int = 0) -> str:
    parts = [title, *(finding_text(each) for each in findings)]
    return "\n".join(parts + [f"{more} more"] if more else parts)


def guard_texts(findings: "Findings") -> "List[str]":
    """What is shown of findings: those that block, and warnings. What is only logged is not."""
    blocking, warnings = findings.blocking, findings.warnings
    return ([_listed("blocked: nothing was run", blocking, findings.more)] if blocking else []) + ([_listed("warning", warnings)] if warnings else [])


def findings_html(findings: "Findings") -> str:
    texts = guard_texts(findings) or ["nothing was found"]
    return f'<div class="glovebox-result">{"".join(text_html(text) for text in texts)}</div>'


def _ending(result: "Result") -> str:
    """Why it ended. A refusal is told by its findings, where they are."""
    return "" if result.ok or (result.verdict == "blocked" and result.guard.blocked) else f"{result.verdict.kind}: {result.verdict.message}"


def result_html(result: "Result") -> str:
    parts = []
    if result.stdout:
        parts.append(text_html(result.stdout))
    if result.stderr:
        parts.append(text_html(result.stderr, "background:rgba(255,120,120,.15)"))
    parts += [value_html(value) for value in result.results]
    if result.error is not None:
        parts.append(text_html(result.error.traceback or str(result.error), "color:#b22"))
    parts += [text_html(text, "font-weight:bold" if result.guard.blocked else "color:#850") for text in guard_texts(result.guard)]
    if _ending(result):
        parts.append(text_html(_ending(result), "font-weight:bold"))
    elif not parts:
        parts.append(text_html("ok"))
    return f'<div class="glovebox-result">{"".join(parts)}</div>'


def result_text(result: "Result") -> str:
    """What a notebook without HTML shows."""
    parts = [plain(text) for text in (result.stdout, result.stderr) if text]
    parts += [plain(value.text if value.text is not None else ", ".join(value.data)) for value in result.results]
    if result.error is not None:
        parts.append(plain(result.error.traceback or str(result.error)))
    parts += [plain(text) for text in guard_texts(result.guard)]
    if _ending(result):
        parts.append(plain(_ending(result)))
    return "\n".join(part.rstrip("\n") for part in parts) or repr(result)
