# SPDX-License-Identifier: Apache-2.0
"""Steps of a reasoning loop: variables and files last from one to the next."""
import tempfile

from glovebox.compat.dolphin import DockerSandboxExecutor

with tempfile.TemporaryDirectory() as base:
    with DockerSandboxExecutor("demo", sandbox_base_dir=base, memory_limit="512m", timeout=30) as executor:
        executor.execute_code("import pandas as pd\nframe = pd.DataFrame({'n': range(5)})")
        print(executor.execute_code("frame.n.sum()"), end="")
        executor.execute_code("frame.to_csv('/sandbox/frame.csv', index=False)")
    print((executor.host_dir / "frame.csv").read_text().split())
