#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py FILE NAME HEADER VERSION: the file as C, NAME_text[] and NAME_size (a NUL follows that is not counted; a literal compiles ten times as fast as numbers). Of JSON the blanks go, and "@VERSION@" in it becomes the version."""
import json
import sys

file, name, header, version = sys.argv[1:]
with open(file, "rb") as stream:
    text = stream.read()
if file.endswith(".json"):
    text = json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False).replace("@VERSION@", version).encode()
print(f'/* Made by embed.py. */\n#include "{header}"\n\nconst unsigned char {name}_text[] __attribute__((aligned(64))) =')
PLAIN = {byte: chr(byte) for byte in range(0x20, 0x7f) if chr(byte) not in '"\\?'}  # and ? could begin a trigraph
for at in range(0, len(text), 80):
    print('"' + "".join(PLAIN.get(byte) or f"\\{byte:03o}" for byte in text[at:at + 80]) + '"')
print(f";\nconst size_t {name}_size = {len(text)};")
