# SPDX-License-Identifier: Apache-2.0
"""An executor for smolagents.

    agent = CodeAgent(tools=[...], model=model, executor=GloveboxExecutor())
"""
from __future__ import annotations

import io
from typing import Any, List, Optional, Sequence

from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentError

from .. import Sandbox
from ..results import Result, Value

TEMPLATE = "python-data"


class GloveboxExecutor(RemotePythonExecutor):  # type: ignore[misc]
    """Runs an agent's code in one box, whose variables last from step to step. Values come back as JSON, never as pickles."""

    def __init__(self, additional_imports: Sequence[str] = (), logger: Optional[AgentLogger] = None, *, sandbox: Optional[Sandbox] = None,
                 template: Optional[str] = TEMPLATE, **options: Any) -> None:
        """sandbox: one that is there already, and stays; else one is made with template and the other options of Sandbox. With an image there is no
        template; on an engine without an image, the image glovebox-python-data takes its place."""
        super().__init__(list(additional_imports), logger or AgentLogger(), allow_pickle=False)
        self._owned = sandbox is None
        self.sandbox = sandbox or Sandbox(None if options.get("image") else template, **options).open()
        self.installed_packages = self.install_packages(list(additional_imports))

    def install_packages(self, additional_imports: List[str]) -> List[str]:
        """Nothing can be installed in a box without network: what is not there is told."""
        for name in additional_imports:
            module = {"pillow": "PIL", "scikit-learn": "sklearn"}.get(name, name)
            looked = self.sandbox.run(f"import importlib.util as _u\nassert _u.find_spec({module!r}) is not None")
            if not looked.ok and (looked.error is None or looked.error.name != "AssertionError"):
                raise AgentError(f"whether the package {name} is in the sandbox is not known: {_why(looked)}",
                                 self.logger)
            if not looked.ok:
                raise AgentError(f"the package {name} is not in the sandbox, and it has no network to install it: use a template that has it", self.logger)
        return additional_imports

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        result = self.sandbox.run(code)
        logs = result.stdout + result.stderr
        if result.error is not None and result.error.name == self.FINAL_ANSWER_EXCEPTION:
            return CodeOutput(output=self._deserialize_final_answer(result.error.value, False), logs=logs, is_final_answer=True)
        if not result.ok:
            raise AgentError(f"{logs}\n{_why(result)}", self.logger)
        return CodeOutput(output=_output(result), logs=logs, is_final_answer=False)

    def cleanup(self) -> None:
        if self._owned:
            self.sandbox.close()


def _why(result: Result) -> str:
    if result.error is not None:
        return f"Executing code yielded an error:\n{result.error.traceback or f'{result.error.name}: {result.error.value}'}"
    if result.guard.blocked:
        return "The code was refused and not run:\n" + "\n".join(str(finding) for finding in result.guard.blocking)
    return f"{result.verdict.kind}: {result.verdict.message}"


def _output(result: Result) -> Any:
    main: Optional[Value] = next((value for value in result.results if value.main), None)
    picture = (main.png or main.jpeg) if main is not None else None
    if picture is None:
        return result.text
    from PIL import Image  # smolagents has it
    return Image.open(io.BytesIO(picture))
