# SPDX-License-Identifier: Apache-2.0
"""Code of different trust, each with the limits that the policy file gives it, watched while it runs."""
from glovebox.compat.policy import SandboxExecutor

executor = SandboxExecutor()  # the policy file of the installation; SandboxExecutor("config/sandbox.yaml") for another
for trust in ("untrusted", "trusted"):
    outcome = executor.execute("print(sum(range(1000)))", trust)
    print(trust, outcome.output.strip(), outcome.security["limits"]["memory_bytes"] >> 20, "MiB,", "network", outcome.security["controls"]["network"])

peaks = []
outcome = executor.execute("x = bytearray(1 << 30)", "untrusted", on_usage=lambda sample: peaks.append(sample.memory_bytes))
print(outcome.success, outcome.violation or "the code failed by itself")
