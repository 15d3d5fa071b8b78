# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of sessions (tests/README.md). A test that asks for `sessions` runs twice: warm, where
Python is forked from a template, and cold."""
import subprocess

import pytest

from conftest import IS_ROOT
from sessions import LIBRARY, Session, forget

NO_TEMPLATE = "this host gives no cgroup to this user, and so no template"
PYTHON = "/usr/bin/python3"


def has_module(name):
    return subprocess.run([PYTHON, "-c", f"import {name}"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def needs(*names):
    missing = [name for name in names if not has_module(name)]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed for {PYTHON}")


class Sessions:
    """Opens sessions, and closes them when the test is over. Called with the arguments of Session."""

    def __init__(self, template, weaker):
        self.template, self.weaker, self.opened = template, weaker, []
        self.may_be_cold = False

    @property
    def is_warm(self):
        return self.template != ""

    def __call__(self, policy=None, template=None, **options):
        overrides = {"allow_weaker": "cgroup", **(policy or {})} if self.weaker else policy
        session = Session(overrides, self.template if template is None else template, **options)
        self.opened.append(session)
        return session

    def context(self, policy=None, language="python", **options):
        """A context in a session of its own."""
        return self(policy, **options).context(language)

    def finish(self):
        layouts = set().union(*(s.layouts for s in self.opened)) if self.opened else set()
        for session in self.opened:
            session.close()
        if not self.may_be_cold:
            wanted = "forked from the template" if self.is_warm else "fresh exec"
            assert all(how.startswith(wanted) for how in layouts), f"not what the test was to be about: {layouts}"


@pytest.fixture(scope="module", autouse=True)
def own_warden(binary):
    """None is left when the tests of a file are over."""
    if not LIBRARY.exists():
        pytest.skip("this build has no library: it was not built for this host")
    yield
    forget()


def make_sessions(template, missing_controls):
    weaker = missing_controls("root" if IS_ROOT else "user")
    if weaker and template:
        pytest.skip(NO_TEMPLATE)
    return Sessions(template, weaker)


@pytest.fixture(params=["python", ""], ids=["warm", "cold"])
def sessions(request, missing_controls):
    opener = make_sessions(request.param, missing_controls)
    yield opener
    opener.finish()


@pytest.fixture(params=["python-data", ""], ids=["warm", "cold"])
def data_sessions(request, missing_controls):
    """With numpy and its friends imported, when warm."""
    opener = make_sessions(request.param, missing_controls)
    yield opener
    opener.finish()


@pytest.fixture
def warm_sessions(missing_controls):
    opener = make_sessions("python", missing_controls)
    yield opener
    opener.finish()


@pytest.fixture
def cold_sessions(missing_controls):
    opener = make_sessions("", missing_controls)
    yield opener
    opener.finish()
