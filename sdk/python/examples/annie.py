# SPDX-License-Identifier: Apache-2.0
"""A chat assistant's tool: code from a conversation, with a plot, and what it may not do."""
from glovebox.compat.annie import execute_python

answer = execute_python("""
import matplotlib.pyplot as plt
values = [n ** 2 for n in range(10)]
plt.plot(values)
plt.show()
print("sum:", sum(values))
""")
print(answer["returncode"], answer["stdout"].strip(), "picture" if "image_base64" in answer else "no picture")

print(execute_python("open('/root/.env').read()")["stderr"].strip())
print(execute_python("while True: pass", timeout=1)["returncode"])
