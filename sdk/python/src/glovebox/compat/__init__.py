# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for sandboxes that programs had before: the same names and arguments, on glovebox.

    annie       execute_python(code)
    ironclaw    SandboxManager, DockerPython, DockerShell
    dolphin     DockerSandboxExecutor
    policy      ContainerManager, SandboxExecutor
    agentcore   ExecutePythonTool, ExecutionContext

Who isolates is chosen by `backend=`, else by $GLOVEBOX_BACKEND: "native" (the default) or "docker".
"""
from ._backend import BackendError, DockerNotAvailable, ImageNotFound

__all__ = ["BackendError", "DockerNotAvailable", "ImageNotFound"]
