# SPDX-License-Identifier: Apache-2.0
"""Steps of a reasoning loop: variables and files last from one to the next."""
import tempfile

from glovebox.compat.dolphin import DockerSandboxExecutor

with tempfile.TemporaryDirectory() as base:
    with DockerSandboxExecutor("demo", sandbox_base_dir=base, memory_limit="512m", timeout=30) as executor:
        executor.execute_code("import numpy as np\nnumbers = np.arange(5)")
        print(executor.execute_code("print(numbers.sum())"), end="")
        executor.execute_code("np.savetxt('/sandbox/numbers.csv', numbers, fmt='%d', header='n', comments='')")
    print((executor.host_dir / "numbers.csv").read_text().split())
