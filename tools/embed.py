#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py FILE.json NAME HEADER VERSION: the JSON as C, NAME_text[] and NAME_size, without its blanks. "@VERSION@" in it becomes the version."""
import json
import sys

file, name, header, version = sys.argv[1:]
with open(file, encoding="utf-8") as stream:
    text = json.dumps(json.load(stream), separators=(",", ":"), ensure_ascii=False).replace("@VERSION@", version).encode()
print(f'/* Made by embed.py. */\n#include "{header}"\n\nconst unsigned char {name}_text[] = {{')
for at in range(0, len(text), 24):
    print("".join(f"{byte}," for byte in text[at:at + 24]))
print(f"}};\nconst size_t {name}_size = {len(text)};")
