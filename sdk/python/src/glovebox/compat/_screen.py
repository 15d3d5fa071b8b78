# SPDX-License-Identifier: Apache-2.0
"""What is looked for in code before it runs, and in output before it is shown. Text is matched and nothing is parsed or evaluated here: no boundary,
but what a model says in good faith is caught early, with a sentence that it can act on."""
from __future__ import annotations

import re
from typing import Iterable, Optional, Sequence

#: Packages that drive browsers.
BROWSER_AUTOMATION = ("playwright", "selenium", "pyppeteer", "splinter")

#: Names of files that hold credentials, wherever they stand in the code.
CREDENTIAL_FILES = (
    re.compile(r"""(?<![\w.])\.env(?:\.[A-Za-z0-9_-]+)?(?=['"\s)/]|$)"""),
    re.compile(r"\bload_dotenv\b|\bdotenv_values\b"),
    re.compile(r"(?<![\w.])\.ssh\b|\bid_(?:rsa|dsa|ecdsa|ed25519)\b"),
    re.compile(r"(?<![\w.])\.(?:aws|azure|kube|docker|gnupg|netrc|pgpass|git-credentials|npmrc|pypirc)\b"),
    re.compile(r"\b(?:application_default_credentials|service[_-]account|client_secrets?|credentials)\.json\b"),
    re.compile(r"/etc/(?:shadow|gshadow|sudoers)\b|/proc/[\w*{}]+/environ\b"),
)

#: Secrets by their shape.
SHAPES = (
    ("aws-key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("github-token", re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b|\bgithub_pat_[A-Za-z0-9_]{22,255}\b")),
    ("api-key", re.compile(r"\bsk-(?:[A-Za-z0-9]+-)*[A-Za-z0-9_-]{20,200}")),
    ("slack-token", re.compile(r"\bxox[abpors]-[A-Za-z0-9-]{10,200}")),
    ("google-key", re.compile(r"\bAIza[0-9A-Za-z_-]{35}\b")),
    ("glovebox-token", re.compile(r"\bgbx_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}")),
    ("jwt", re.compile(r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,1000}")),
    ("private-key", re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.{0,20000}?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)", re.DOTALL)),
)
SECRET_MIN = 8  # a shorter text is too common to be looked for


def _imports(code: str, names: Iterable[str]) -> Optional[str]:
    for name in names:
        module = re.escape(name)
        if re.search(rf"(?:^|;)[ \t]*(?:from[ \t]+{module}\b|import[ \t]+(?:[\w. \t]+,[ \t]*)*{module}\b)", code, re.MULTILINE) or \
           re.search(rf"(?:__import__|import_module)[ \t]*\([ \t]*['\"]{module}\b", code):
            return name
    return None


def _line_of(code: str, at: int) -> int:
    return code.count("\n", 0, at) + 1


def refusal(code: str, secrets: Sequence[str] = (), blocked_imports: Iterable[str] = BROWSER_AUTOMATION) -> Optional[str]:
    """Why the code is not run; None: it is."""
    for pattern in CREDENTIAL_FILES:
        found = pattern.search(code)
        if found:
            return (f"refused: line {_line_of(code, found.start())} names {found.group().strip()!r}, where credentials are kept. They are not in the sandbox; "
                    "ask for the value that you need instead.")
    name = _imports(code, blocked_imports)
    if name:
        return f"refused: {name} drives a browser, and there is none in the sandbox. Fetch the data another way."
    for secret in secrets:
        if len(secret) >= SECRET_MIN and secret in code:
            return f"refused: line {_line_of(code, code.index(secret))} holds a secret of this project. Leave it out: secrets do not belong into code."
    for rule, pattern in SHAPES:
        found = pattern.search(code)
        if found:
            return f"refused: line {_line_of(code, found.start())} holds what looks like a secret ({rule}). Leave it out: secrets do not belong into code."
    return None


def scrub(text: str, secrets: Sequence[str] = ()) -> str:
    """The text with [scrubbed:...] in the place of secrets."""
    for secret in sorted((s for s in secrets if len(s) >= SECRET_MIN), key=len, reverse=True):
        text = text.replace(secret, "[scrubbed:known]")
    for rule, pattern in SHAPES:
        text = pattern.sub(f"[scrubbed:{rule}]", text)
    return text
