/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read in pieces of Python, and that no piece is too much to end. */
#include "base/limits.h"
#include "guard/reader/read.h"

#include "base/fd.h"
#include "base/macro.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static void *memory;

struct told {
        char text[4096];
        size_t used;
        uint32_t n;
        uint64_t bytes;
        size_t largest;
};

static void take(void *data, enum reader_kind kind, uint32_t line, uint32_t column, const char *text, size_t size)
{
        struct told *t = data;

        t->n++;
        t->bytes += size;
        t->largest = MAX(t->largest, size);
        if (t->used + size + 64 > sizeof(t->text))
                return;
        t->used += (size_t)snprintf(t->text + t->used, 64, "%s%u:%u %c ", t->used ? "\n" : "", line, column, " ISC"[kind]);
        memcpy(t->text + t->used, text, size);
        t->used += size;
        t->text[t->used] = '\0';
}

static int read_text(const char *code, size_t size, struct told *t)
{
        memset(t, 0, sizeof(*t));
        return reader_read(code, size, memory, take, t);
}

static const struct {
        const char *code;
        const char *told; /* place, Import, String or Call, text */
} rows[] = {
        /* imports */
        {"import os", "1:8 I os"},
        {"import os, sys as s, a.b.c", "1:8 I os\n1:12 I sys\n1:22 I a.b.c"},
        {"import a.b as c\nc.d()", "1:8 I a.b\n2:1 C a.b.d()"},
        {"import a.b\na.b.d()", "1:8 I a.b\n2:1 C a.b.d()"},
        {"from os import system\nsystem(\"ls\")", "1:6 I os\n1:16 I os.system\n2:1 C os.system(\"ls\")\n2:8 S ls"},
        {"from os import (path as p,\n  sep)\np.join(\"a\", \"b\")",
         "1:6 I os\n1:17 I os.path\n2:3 I os.sep\n3:1 C os.path.join(\"a\", \"b\")\n3:1 S a/b"},
        {"from os.path import *", "1:6 I os.path"},
        {"from . import x", "1:15 I x"},
        {"from ..a.b import c", "1:8 I a.b\n1:19 I a.b.c"},
        {"from .... import d", "1:18 I d"},
        {"import os;import sys", "1:8 I os\n1:18 I sys"},
        {"if x: import os", "1:14 I os"},
        {"try: import os\nexcept: pass", "1:13 I os"},
        {"import os as o; o.system(\"x\")", "1:8 I os\n1:17 C os.system(\"x\")\n1:26 S x"},
        {"import o\\\n s", "1:8 I o"},
        {"__import__(\"os\")", "1:1 C __import__(\"os\")\n1:12 S os\n1:12 I os"},
        {"__import__(\"os.path\").system(\"x\")", "1:1 C __import__(\"os.path\")\n1:1 C os.system(\"x\")\n1:12 S os.path\n1:12 I os.path\n1:30 S x"},
        {"importlib.import_module(\"os\")", "1:1 C importlib.import_module(\"os\")\n1:25 S os\n1:25 I os"},
        {"import importlib as i\ni.import_module(\"so\"[::-1])", "1:8 I importlib\n2:1 C importlib.import_module(\"os\")\n2:17 S os\n2:17 I os"},
        {"getattr(importlib, \"import_\" + \"module\")(\"pty\")",
         "1:1 C getattr(importlib, \"import_module\")\n1:1 C importlib.import_module(\"pty\")\n1:20 S import_module\n1:42 S pty\n1:42 I pty"},
        {"f = __import__\nf(\"pty\")", "2:1 C __import__(\"pty\")\n2:3 S pty\n2:3 I pty"},
        {"import builtins\nbuiltins.__import__(\"pty\")", "1:8 I builtins\n2:1 C __import__(\"pty\")\n2:21 S pty\n2:21 I pty"},
        {"from builtins import exec as e\ne(\"import pty\")",
         "1:6 I builtins\n1:22 I builtins.exec\n2:1 C exec(\"import pty\")\n2:3 S import pty\n2:3 I pty"},
        {"__builtins__[\"exec\"](\"import pty\")", "1:1 C exec(\"import pty\")\n1:14 S exec\n1:22 S import pty\n1:22 I pty"},
        {"__builtins__.__dict__[\"eval\"](\"1\")", "1:1 C eval(\"1\")\n1:23 S eval\n1:31 S 1"},
        {"sys.modules[\"os\"].system(\"x\")", "1:1 C os.system(\"x\")\n1:13 S os\n1:26 S x"},
        {"os.__dict__[\"system\"](\"x\")", "1:1 C os.system(\"x\")\n1:13 S system\n1:23 S x"},
        {"globals()[\"__builtins__\"].exec(\"import a\")",
         "1:1 C globals()\n1:1 C exec(\"import a\")\n1:11 S __builtins__\n1:32 S import a\n1:32 I a"},
        {"vars()[\"x\"](\"y\")", "1:1 C vars()\n1:1 C x(\"y\")\n1:8 S x\n1:13 S y"},
        {"raise X(\"a\") from Y(\"b\")", "1:7 C X(\"a\")\n1:9 S a\n1:19 C Y(\"b\")\n1:21 S b"},
        /* literals */
        {"x = \"a\"", "1:5 S a"},
        {"x = 'a' \"b\" \"\"\"c\"\"\"", "1:5 S abc"},
        {"x = r\"\\n\" b\"\\x41\" u\"b\" rb'\\x'", "1:5 S \\nAb\\x"},
        {"x = \"\\x41\\u0042\\U00000043\\104\\n\"", "1:5 S ABCD\n"},
        {"x = \"\\N{DOLLAR SIGN}x\"", "1:5 S {}x"},
        {"x = \"a\\\nb\"", "1:5 S ab"},
        {"x = \"\"\"a\nb\"\"\"", "1:5 S a\nb"},
        {"x = \"a\" \\\n \"b\"", "1:5 S ab"},
        {"x = (\"a\"\n \"b\")", "1:6 S ab"},
        {"\"lone\"", ""},
        {"\"lone\" \"er\"", ""},
        {"\"\"\"doc\n\"\"\"; x = 1", ""},
        {"def f():\n  \"doc\"\n  return \"r\"", "3:10 S r"},
        {"def f(): \"doc\"", ""},
        {"# \"comment\"", ""},
        {"x = 1 # \"comment\"", ""},
        {"x = \"a\" # b\ry = \"c\"", "1:5 S a\n2:5 S c"},
        {"x = \"#\"", "1:5 S #"},
        {"x = \"\"", ""},
        {"x = \"unterminated\ny = \"b\"", "1:5 S unterminated\n2:5 S b"},
        {"x = \"\\xe9\"", "1:5 S \303\251"},
        {"x = b\"\\xe9\"", "1:5 S \351"},
        /* concatenation */
        {"x = \"/etc\" + \"/passwd\"", "1:5 S /etc/passwd"},
        {"x = \"a\" + y + \"b\"", "1:5 S a{}b"},
        {"x = y + z", ""},
        {"x = \"a\" * 3", "1:5 S aaa"},
        {"x = 3 * \"ab\"", "1:5 S ababab"},
        {"x = \"a\" * 0", ""},
        {"x = \"a\" * -1", ""},
        {"x = \"-\" * n", "1:5 S -"},
        {"x = \"a\"; y = x + \"b\"", "1:5 S a\n1:14 S ab"},
        {"x = \"a\"\nx += \"b\"\nx += \"c\"", "1:5 S a\n2:1 S ab\n3:1 S abc"},
        {"x = y = \"a\"\nz = x + y", "1:9 S a\n2:5 S aa"},
        {"a, b = \"x\", \"y\"\nc = a + b", "1:8 S x\n1:13 S y\n2:5 S xy"},
        {"(a, b) = (\"x\", \"y\")\nc = a + b", "1:11 S x\n1:16 S y\n2:5 S xy"},
        {"[a, b] = [\"x\", \"y\"]\nc = b + a", "1:11 S x\n1:16 S y\n2:5 S yx"},
        {"a, *b = \"x\", \"y\", \"z\"\nc = a + \"w\"", "1:9 S x\n1:14 S y\n1:19 S z\n2:5 S {}w"},
        {"self.x = \"a\"\nopen(self.x + \"b\")", "1:10 S a\n2:1 C open(\"ab\")\n2:6 S ab"},
        {"x: str = \"a\"\ny = x + \"b\"", "1:10 S a\n2:5 S ab"},
        {"(x := \"a\") + \"b\"", "1:7 S a\n1:7 S ab"},
        {"x = \"a\" if y else \"b\"", "1:5 S a\n1:19 S b"},
        {"x = y or \"a\"", "1:10 S a"},
        {"x = [\"/etc\", \"x\"]\ny = \"/\".join(x)\nz = x[0] + x[-1]", "1:6 S /etc\n1:14 S x\n2:5 S /etc/x\n3:5 S /etcx"},
        {"d = {\"a\": \"b\", 1: \"c\"}\nx = d[\"a\"] + d[1]", "1:6 S a\n1:11 S b\n1:19 S c\n2:5 S bc\n2:7 S a"},
        {"x = [\"a\"] + [\"b\"]\ny = \"\".join(x)", "1:6 S a\n1:14 S b\n2:5 S ab"},
        {"x = [\"a\"]\nx.append(\"b\")\ny = \"\".join(x)", "1:6 S a\n2:1 C x.append(\"b\")\n2:10 S b\n3:5 C \"\".join(x)"},
        {"for x in (\"a\", \"b\"): open(x + \"c\")", "1:11 S a\n1:16 S b\n1:22 C open(\"{}c\")\n1:27 S {}c"},
        {"x = \"a\"\ndef f(x): return x + \"b\"", "1:5 S a\n2:18 S {}b"},
        {"def f(x=\"a\"): return x + \"b\"", "1:9 S a\n1:22 S ab"},
        {"def f(x: Path = \"a\", *y, z) -> \"t\": return x + \"b\"", "1:17 S a\n1:32 S t\n1:44 S ab"},
        {"x = \"a\"\nx = f()\ny = x + \"b\"", "1:5 S a\n2:5 C f()\n3:5 S {}b"},
        {"x /= \"a\"", "1:1 S {}/a"},
        {"x = p / \"a\" / \"b\"", "1:5 S {}/a/b"},
        /* methods */
        {"x = \"ABC\".lower()", "1:5 S abc"},
        {"x = \"abc\".upper().lower().title()", "1:5 S Abc"},
        {"x = \" a \".strip() + \"xax\".strip(\"x\")", "1:5 S aa"},
        {"x = \"aXb\".replace(\"X\", \"/\")", "1:5 S a/b"},
        {"x = \"-\".join([\"a\", \"b\"])", "1:5 S a-b"},
        {"x = \"\".join((\"a\", y, \"b\"))", "1:5 S a{}b"},
        {"x = \"\".join(reversed(\"cba\"))", "1:5 S abc\n1:13 C reversed(\"cba\")"},
        {"x = \"a\".encode().decode(\"utf-8\")", "1:5 S a"},
        {"x = \"cba\"[::-1]", "1:5 S abc"},
        {"x = \"abcdef\"[1:3] + \"abc\"[0] + \"abc\"[-1]", "1:5 S bcac"},
        {"x = \"abcdef\"[::2]", "1:5 S ace"},
        {"x = \"abcdef\"[:-1]", "1:5 S abcde"},
        {"x = \"abc\"[5]", ""},
        {"x = (\"a\" + y)[::-1]", "1:6 S a{}"},
        {"x = \"a,b\".split(\",\")", "1:5 C \"a,b\".split(\",\")\n1:5 S a,b\n1:17 S ,"},
        {"x = y.join([\"a\"])", "1:5 C y.join({})\n1:13 S a"},
        {"x = \"a\".nope(\"b\")", "1:5 C \"a\".nope(\"b\")\n1:5 S a\n1:14 S b"},
        /* formats */
        {"x = \"%s/%s\" % (\"a\", \"b\")", "1:5 S a/b"},
        {"x = \"%s\" % \"a\"", "1:5 S a"},
        {"x = \"%d%%\" % 5", "1:5 S 5%"},
        {"x = \"%(a)s\" % {\"a\": \"b\"}", "1:5 S b\n1:16 S a\n1:21 S b"},
        {"x = \"%s-%s\" % (y, \"b\")", "1:5 S {}-b"},
        {"x = \"%c\" % 47", "1:5 S /"},
        {"x = \"{}/{}\".format(\"a\", \"b\")", "1:5 S a/b"},
        {"x = \"{1}{0}{a}\".format(\"a\", \"b\", a=\"c\")", "1:5 S bac"},
        {"x = \"{a.b}{{}}{:>4}\".format(\"z\")", "1:5 S {}{}z"},
        {"x = f\"a{y}b\"", "1:5 S a{}b"},
        {"y = \"v\"\nx = f\"a{y}b{y!r:>{w}}\"", "1:5 S v\n2:5 S avbv"},
        {"x = f\"{d[\"k\"]}/{d['l']}\"", "1:5 S {}/{}\n1:10 S k\n1:19 S l"},
        {"x = f\"{'a'}{\"b\"}\"", "1:5 S ab"},
        {"x = f'{x:%H:%M}z'", "1:5 S {}z"},
        {"x = f\"{{}}{y=}\"", "1:5 S {}{}"},
        {"x = f\"\"\"{\ny\n}a\"\"\"", "1:5 S {}a"},
        {"x = f\"{f\"{'in'}\"}b\"", "1:5 S inb"},
        {"x = f\"{open(\"q\")}\"", "1:8 C open(\"q\")\n1:13 S q"},
        {"x = rf\"\\d{y}\\n\"", "1:5 S \\d{}\\n"},
        {"x = f\"{x!=y}{(lambda: 1)}{x:=5}z\"", "1:5 S {}{}{}z"},
        {"x = f\"\\N{DASH}{y}\"", "1:5 S {}{}"},
        {"x = f\"{y\" + \"z\"", "1:9 S  + "},
        /* codes */
        {"x = chr(47) + chr(0x65)", "1:5 C chr({})\n1:5 S /e\n1:15 C chr({})"},
        {"x = \"\".join(map(chr, [47, 101]))", "1:5 S /e\n1:13 C map(chr, {})"},
        {"x = \"\".join([chr(c) for c in [47, 101]])", "1:5 S /e\n1:14 C chr(c)"},
        {"x = \"\".join(chr(c) for c in (47, 101))", "1:5 S /e\n1:13 C chr(c)"},
        {"x = bytes([47, 101]).decode()", "1:5 C bytes({})\n1:5 S /e"},
        {"x = chr(ord(\"a\") + 1)", "1:5 C chr({})\n1:5 S b\n1:9 C ord(\"a\")"},
        {"x = chr(50 - 3) + chr(94 // 2) + chr(0b101111) + chr(1 << 6)", "1:5 C chr({})\n1:5 S ///@\n1:5 S /@\n1:19 C chr({})\n1:34 C chr({})\n1:50 C chr({})"},
        {"x = bytes.fromhex(\"2f65 7463\")", "1:5 C bytes.fromhex(\"2f65 7463\")\n1:5 S /etc"},
        {"import binascii as b\nx = b.unhexlify(\"2f65\")", "1:8 I binascii\n2:5 C binascii.unhexlify(\"2f65\")\n2:5 S /e"},
        {"import base64\nx = base64.b64decode(\"L2V0Yw==\").decode()", "1:8 I base64\n2:5 C base64.b64decode(\"L2V0Yw==\")\n2:5 S /etc"},
        {"from base64 import urlsafe_b64decode as u\nx = u(b\"L2V0Yw\")",
         "1:6 I base64\n1:20 I base64.urlsafe_b64decode\n2:5 C base64.urlsafe_b64decode(\"L2V0Yw\")\n2:5 S /etc"},
        {"import base64\nx = base64.b32decode(\"F5SXIYY=\") + base64.b16decode(\"2F\")",
         "1:8 I base64\n2:5 C base64.b32decode(\"F5SXIYY=\")\n2:5 S /etc/\n2:36 C base64.b16decode(\"2F\")"},
        {"import codecs\nx = codecs.decode(\"/rgp\", \"rot13\")", "1:8 I codecs\n2:5 C codecs.decode(\"/rgp\", \"rot13\")\n2:5 S /etc"},
        {"import codecs\nx = codecs.decode(\"2f65\", \"hex\")", "1:8 I codecs\n2:5 C codecs.decode(\"2f65\", \"hex\")\n2:5 S /e"},
        {"import urllib.parse as u\nx = u.unquote(\"%2Fet%63%2x%\")", "1:8 I urllib.parse\n2:5 C urllib.parse.unquote(\"%2Fet%63%2x%\")\n2:5 S /etc%2x%"},
        {"import string\nx = string.ascii_lowercase[0:3]", "1:8 I string\n2:5 S abc"},
        /* paths */
        {"import os\nx = os.path.join(\"/a\", \"b\", y)", "1:8 I os\n2:5 C os.path.join(\"/a\", \"b\", y)\n2:5 S /a/b/{}"},
        {"import os\nx = os.path.join(\"/a\", \"/b\")", "1:8 I os\n2:5 C os.path.join(\"/a\", \"/b\")\n2:5 S /b\n2:18 S /a"},
        {"import os.path as p\nx = p.join(p.expanduser(\"~\"), \".ssh\")",
         "1:8 I os.path\n2:5 C os.path.join(\"~\", \".ssh\")\n2:5 S ~/.ssh\n2:12 C os.path.expanduser(\"~\")"},
        {"from pathlib import Path\nx = Path(\"/a\") / \"b\"", "1:6 I pathlib\n1:21 I pathlib.Path\n2:5 C pathlib.Path(\"/a\")\n2:5 S /a/b"},
        {"from pathlib import Path\nx = Path.home().joinpath(\".ssh\", \"id\")",
         "1:6 I pathlib\n1:21 I pathlib.Path\n2:5 C pathlib.Path.home()\n2:5 S ~/.ssh/id"},
        {"import pathlib\nx = pathlib.Path(\"~\", \"a\").expanduser().resolve()", "1:8 I pathlib\n2:5 C pathlib.Path(\"~\", \"a\")\n2:5 S ~/a"},
        {"import os\nx = os.environ[\"HOME\"] + \"/.aws\"", "1:8 I os\n2:5 S ~/.aws\n2:16 S HOME"},
        {"import os\nx = os.getenv(\"HOME\") + os.sep + \"a\"", "1:8 I os\n2:5 C os.getenv(\"HOME\")\n2:5 S ~/a\n2:15 S HOME"},
        {"import os\nx = os.environ.get(\"HOME\", \"/\") + \"/b\"",
         "1:8 I os\n2:5 C os.environ.get(\"HOME\", \"/\")\n2:5 S ~/b\n2:20 S HOME\n2:28 S /"},
        {"import os\nx = os.path.expandvars(\"$HOME/a\")", "1:8 I os\n2:5 C os.path.expandvars(\"$HOME/a\")\n2:5 S ~/a"},
        {"x = \"/a/./b//c/../d\"", "1:5 S /a/./b//c/../d\n1:5 S /a/b/d"},
        {"x = \"http://a/../../b\"", "1:5 S http://a/../../b"},
        {"p = 1\nx = f\"/proc/{p}/{p + 1}\"", "2:5 S /proc/1/2"},
        /* calls */
        {"f()", "1:1 C f()"},
        {"f(\"a\", b, 1, c=\"d\", *e, **g)", "1:1 C f(\"a\", b, {}, c=\"d\", {}, {})\n1:3 S a\n1:16 S d"},
        {"f(g(1), [1], \"q\\\"\\\\\")", "1:1 C f(g({}), {}, \"q\\\"\\\\\")\n1:3 C g({})\n1:14 S q\"\\"},
        {"a.b.c(\"x\")", "1:1 C a.b.c(\"x\")\n1:7 S x"},
        {"open(\"f\").read()", "1:1 C open(\"f\")\n1:1 C open().read()\n1:6 S f"},
        {"s = socket.socket()\ns.connect((\"h\", 1))", "1:5 C socket.socket()\n2:1 C socket.socket().connect({})\n2:12 S h"},
        {"x[0].y(\"a\")", "1:1 C {}.y(\"a\")\n1:8 S a"},
        {"(lambda: 0)(\"a\")", "1:13 S a"},
        {"\"a b\".split()", "1:1 C \"a b\".split()\n1:1 S a b"},
        {"import subprocess as sp\nrun = sp.run\nrun([\"ls\"], shell=True)", "1:8 I subprocess\n3:1 C subprocess.run({}, shell=True)\n3:6 S ls"},
        {"import subprocess\nsubprocess.run([\"nsenter\", \"-t\", n, \"1\"])",
         "1:8 I subprocess\n2:1 C subprocess.run({})\n2:1 S nsenter -t {} 1\n2:17 S nsenter\n2:28 S -t\n2:37 S 1"},
        {"import os\nos.execlp(\"a\", \"a\", \"b\")", "1:8 I os\n2:1 C os.execlp(\"a\", \"a\", \"b\")\n2:1 S a a b\n2:11 S a\n2:16 S a\n2:21 S b"},
        {"import os\nf(g(os.environ), k=dict(os.environ))",
         "1:8 I os\n2:1 C f(g(os.environ), k=dict(os.environ))\n2:3 C g(os.environ)\n2:20 C dict(os.environ)"},
        {"import os\ne = dict(os.environ)\nf(e)", "1:8 I os\n2:5 C dict(os.environ)\n3:1 C f(dict(os.environ))"},
        {"from os import *\nsystem(\"x\")", "1:6 I os\n2:1 C os.system(\"x\")\n2:8 S x"},
        {"Path(\"/etc\") / \"x\"", "1:1 C Path(\"/etc\")\n1:1 S /etc/x"},
        /* what is only said */
        {"print(\"/etc/x\", open(\"f\"))", "1:1 C print(\"/etc/x\", open(\"f\"))\n1:17 C open(\"f\")\n1:22 S f"},
        {"print(\"a\", file=f)", "1:1 C print(\"a\", file=f)\n1:7 S a"},
        {"def print(x): pass\nprint(\"a\")", "2:1 C print(\"a\")\n2:7 S a"},
        {"print = f\nprint(\"a\")", "2:1 C f(\"a\")\n2:7 S a"},
        {"raise E(_(\"a\"))", "1:7 C E(_(\"a\"))\n1:9 C _(\"a\")"},
        {"raise KeyError(\"a\")", "1:7 C KeyError(\"a\")"},
        {"p.add(\"-a\", help=\"b\")", "1:1 C p.add(\"-a\", help=\"b\")\n1:7 S -a"},
        {"@app.route(\"/x\")\ndef f(): pass", "1:2 C app.route(\"/x\")\n1:12 S /x"},
        {"print \"py2\"", "1:7 S py2"},
        /* code in code */
        {"exec(\"import os\")", "1:1 C exec(\"import os\")\n1:6 S import os\n1:6 I os"},
        {"exec(\"exec('exec(\\\"import os\\\")')\")",
         "1:1 C exec(\"exec('exec(\\\"import os\\\")')\")\n1:6 S exec('exec(\"import os\")')\n1:6 C exec(\"exec(\\\"import os\\\")\")\n1:6 S exec(\"import os\")\n1:6 C exec(\"import os\")\n1:6 S import os\n1:6 I os"},
        {"eval(compile(\"f('a')\", \"n\", \"exec\"))",
         "1:1 C eval(compile(\"f('a')\", \"n\", \"exec\"))\n1:6 C compile(\"f('a')\", \"n\", \"exec\")\n1:14 S f('a')\n1:14 C f(\"a\")\n1:14 S a\n1:24 S n\n1:29 S exec"},
        {"exec(\"x = 'a'\")\ny = x + \"b\"", "1:1 C exec(\"x = 'a'\")\n1:6 S x = 'a'\n1:6 S a\n2:5 S ab"},
        {"exec(\"import \" + m)", "1:1 C exec(\"import {}\")\n1:6 S import {}"},
        {"exec(open(\"f\").read())", "1:1 C exec(open().read())\n1:6 C open(\"f\")\n1:6 C open().read()\n1:11 S f"},
        {"\357\275\205xec(\"import os\")", "1:1 C exec(\"import os\")\n1:8 S import os\n1:8 I os"},
        {"\360\235\221\222\342\205\271ec(\"import os\")", "1:1 C exec(\"import os\")\n1:11 S import os\n1:11 I os"},
        {"import o\305\277; o\305\277.\305\277y\305\277tem(\"x\")", "1:8 I os\n1:13 C os.system(\"x\")\n1:26 S x"},
        {"na\303\257ve(\"x\")", "1:1 C na\303\257ve(\"x\")\n1:8 S x"},
        /* passing over */
        {"async def f():\n  async with a(\"x\") as b: await b.c(\"y\")\n  async for i in d(\"z\"): pass",
         "2:14 C a(\"x\")\n2:16 S x\n2:33 C a().c(\"y\")\n2:37 S y\n3:18 C d(\"z\")\n3:20 S z"},
        {"match x:\n  case \"a\" | \"b\": f(\"c\")\n  case {\"k\": v}: pass\n  case _: g(\"d\")",
         "2:8 S a\n2:14 S b\n2:19 C f(\"c\")\n2:21 S c\n3:9 S k\n4:11 C g(\"d\")\n4:13 S d"},
        {"match = \"a\"; case = match + \"b\"", "1:9 S a\n1:21 S ab"},
        {"type X = \"a\"", "1:10 S a"},
        {"x = lambda a, b=\"c\", *d: e(\"f\")", "1:17 S c\n1:26 C e(\"f\")\n1:28 S f"},
        {"x = [i for i in a(\"b\") if i not in \"c\" for j in \"d\"]", "1:17 C a(\"b\")\n1:19 S b\n1:36 S c\n1:49 S d"},
        {"x = {k: v for k, v in a(\"b\")}", "1:23 C a(\"b\")\n1:25 S b"},
        {"while x: f(\"a\")", "1:10 C f(\"a\")\n1:12 S a"},
        {"else: f(\"b\")", "1:7 C f(\"b\")\n1:9 S b"},
        {"class A(B, m=\"n\"):\n  x = \"a\"\n  def f(self): return self.x + \"b\"", "1:14 S n\n2:7 S a\n3:23 S {}b"},
        {"def f[T](x): return \"a\"", "1:21 S a"},
        {"with (open(\"a\") as f, open(\"b\") as g): f.read(\"c\")",
         "1:7 C open(\"a\")\n1:12 S a\n1:23 C open(\"b\")\n1:28 S b\n1:40 C open().read(\"c\")\n1:47 S c"},
        {"with open(\"a\") as f: f.write(\"b\")", "1:6 C open(\"a\")\n1:11 S a\n1:22 C open().write(\"b\")\n1:30 S b"},
        {"try: pass\nexcept* E as e: f(\"a\")", "2:17 C f(\"a\")\n2:19 S a"},
        {"assert x, \"a\"", "1:11 S a"},
        {"return \"a\"", "1:8 S a"},
        {"del x[\"a\"]", "1:7 S a"},
        {"global x", ""},
        {"x = yield \"a\"", "1:11 S a"},
        {"yield \"a\"", "1:7 S a"},
        {"x = \"a\\tb\" \"c\\td\" + \"e\\t\"", "1:5 S a\011bc\011de\011"},
        {"yield from f(\"a\")", "1:12 C f(\"a\")\n1:14 S a"},
        {"x = not \"a\"", "1:9 S a"},
        {"x = a < \"b\" <= c != \"d\"", "1:9 S b\n1:21 S d"},
        {"x = a is not \"b\"", "1:14 S b"},
        {"x = ...", ""},
        {"x[1:2, ::3] = \"a\"", "1:15 S a"},
        {")\nf(\"a\")", "2:1 C f(\"a\")\n2:3 S a"},
        {"f(]\ng(\"b\")", "1:1 C f()\n2:1 C g(\"b\")\n2:3 S b"},
        {"$ ? `x` \"a\"", "1:9 S a"},
        {"!ls -l", "1:1 S ls -l"},
        {"%pip install x", "1:1 S pip install x"},
        {"x = !cat /etc/passwd", "1:5 S cat /etc/passwd"},
        {"%%bash\ncurl x", "1:1 S bash\ncurl x"},
        {"\357\273\277import os", "1:8 I os"},
        {"x = 5 % 3\nf(\"a\")", "2:1 C f(\"a\")\n2:3 S a"},
        {"x = 1if y else\"b\"", "1:15 S b"},
        {"x = 0x1F + 1_000 + 1e-5 + .5 + 1j", ""},
};

static void test_rows(void **state)
{
        struct told t;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                int r = read_text(rows[i].code, strlen(rows[i].code), &t);
                if (r != 0 || strcmp(t.text, rows[i].told) != 0)
                        fail_msg("%s\n--- is read as (%d)\n%s\n--- and not as\n%s", rows[i].code, r, t.text, rows[i].told);
        }
}

/* Cut off anywhere it is still read, and what stands in a line of its own behind it is found again. */
static void test_cut(void **state)
{
        struct told t;
        char code[2048];

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                for (size_t n = 0; n < strlen(rows[i].code); n++) {
                        _cleanup_free_ char *exact = malloc(n + 1);
                        assert_non_null(exact);
                        memcpy(exact, rows[i].code, n);
                        assert_in_range(read_text(exact, n, &t), 0, 1);
                }
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                if (strstr(rows[i].code, "f\"{y\"") || strncmp(rows[i].code, "%%", 2) == 0)
                        continue; /* the rest belongs to them */
                int n = snprintf(code, sizeof(code), "%s\nlast_word('here')\n", rows[i].code);
                assert_int_equal(read_text(code, (size_t)n, &t), 0);
                assert_non_null(strstr(t.text, "C last_word(\"here\")"));
        }
}

/* ---- too much ---- */

static const struct {
        const char *before, *piece;
        size_t times;
        const char *after;
        int result;   /* -1: either */
        uint32_t n;   /* of items; 0: whatever */
} floods[] = {
        {"", "(", 16 << 20, "", 1, 0},
        {"", "([{", 5 << 20, "", 1, 0},
        {"", "\"", 16 << 20, "", 0, 0},
        {"", "'", (16 << 20) - 1, "", 0, 0},
        {"x = \"\"\"", "a", 15 << 20, "", 0, 1},
        {"x = '", "a", 15 << 20, "'", 0, 1},
        {"x = ", "'a' + ", 1 << 20, "'b'", 0, 0},
        {"x = ", "'a' ", 3 << 20, "", 0, 0},
        {"", "1 + ", 4 << 20, "1", 0, 0},
        {"", "'a' * 10 ** 9\n", 1 << 20, "", 1, 1024},
        {"x = 'a'\n", "x = x + x\n", 1 << 20, "", 1, 0},
        {"x = ['a']\n", "x = x + x\n", 1 << 20, "", 1, 0},
        {"x = []\n", "x = [x]\n", 1 << 20, "", 0, 0},
        {"", "f'{", 5 << 20, "", 1, 0},
        {"", "f'{x:{", 2 << 20, "", 1, 0},
        {"", "lambda: ", 2 << 20, "", 1, 0},
        {"", "not ", 4 << 20, "x", 0, 0},
        {"", "-", 16 << 20, "", 0, 0},
        {"", "a if b else ", 1 << 20, "c", 0, 0},
        {"", "f(", 8 << 20, "", 1, 0},
        {"", "a[", 8 << 20, "", 1, 0},
        {"", "a.", 8 << 20, "", -1, 0},
        {"", "(x := ", 2 << 20, "", 1, 0},
        {"", "[x for x in ", 1 << 20, "", 1, 0},
        {"", "f();", 4 << 20, "", 1, READER_ITEMS_MAX},
        {"x = [", "'a',", 4 << 20, "]", 1, READER_ITEMS_MAX},
        {"x = ' ' * 65000\n", "x.strip()\n", 1 << 20, "", 1, 0},
        {"x = 'a' * 65000\n", "y = x.replace('a', x)\n", 1 << 19, "", 1, 0},
        {"x = 'a' * 65000\n", "x[::-1]\n", 1 << 20, "", 1, 0},
        {"x = 'a;' * 30000\n", "exec(x)\n", 1 << 20, "", 1, 0},
        {"x = 'exec(x)'\n", "exec(x)\n", 1 << 10, "", 1, 0},
        {"", "\\\n", 8 << 20, "", 0, 0},
        {"import ", "a.", 5 << 20, "", -1, 0},
        {"", "a = ", 4 << 20, "1", 0, 0},
        {"", "\xff", 16 << 20, "", 0, 0},
};

static void test_floods(void **state)
{
        _cleanup_free_ char *code = malloc(READER_CODE_BYTES_MAX + 64);
        struct told t;

        assert_non_null(code);
        for (size_t i = 0; i < ARRAY_SIZE(floods); i++) {
                size_t n = strlen(floods[i].before), size = strlen(floods[i].piece), after = strlen(floods[i].after);
                size_t times = MIN(floods[i].times, (READER_CODE_BYTES_MAX / 8 - n - after) / size);
                memcpy(code, floods[i].before, n);
                for (size_t k = 0; k < times; k++, n += size)
                        memcpy(code + n, floods[i].piece, size);
                memcpy(code + n, floods[i].after, after);
                n += after;
                uint64_t start = monotonic_usec();
                int r = read_text(code, n, &t);
                if ((floods[i].result >= 0 && r != floods[i].result) || (floods[i].n && t.n != floods[i].n))
                        fail_msg("%s%s..: %d, %u items", floods[i].before, floods[i].piece, r, t.n);
                assert_true(t.n <= READER_ITEMS_MAX && t.bytes <= READER_ANSWER_BYTES_MAX);
                assert_true(monotonic_usec() - start < 20000000);
        }
}

static void test_bounds(void **state)
{
        _cleanup_free_ char *code = calloc(1, READER_CODE_BYTES_MAX + 1);
        struct told t;

        assert_non_null(code);
        assert_int_equal(read_text(code, READER_CODE_BYTES_MAX + 1, &t), 1);
        assert_int_equal(read_text(code, READER_CODE_BYTES_MAX, &t), 0);
        assert_int_equal(read_text("", 0, &t), 0);
        assert_int_equal(t.n, 0);

        /* A literal is told whole, however long; what is put together is told in pieces. */
        int n = sprintf(code, "x = '");
        memset(code + n, 'a', 200000);
        n += 200000;
        n += sprintf(code + n, "'\ny = x + 'b'\nz = 'c' * 60000 + 'd' * 60000 + '/etc/passwd'\n");
        assert_int_equal(read_text(code, (size_t)n, &t), 0);
        assert_int_equal(t.largest, 200000);
        assert_non_null(strstr(t.text, "2:5 S {}b"));
        assert_int_equal(t.n, 4);

        /* As deep as it may be, and one deeper. */
        for (unsigned depth = READER_DEPTH_MAX - 1; depth <= READER_DEPTH_MAX; depth++) {
                memset(code, '(', depth);
                n = (int)depth + sprintf(code + depth, "'a' + 'b'");
                memset(code + n, ')', depth);
                n += (int)depth;
                n += sprintf(code + n, ".x('y')\nlast('c')");
                int r = read_text(code, (size_t)n, &t);
                assert_int_equal(r, depth == READER_DEPTH_MAX);
                assert_int_equal(strstr(t.text, "S ab") != NULL, r == 0);
                assert_non_null(strstr(t.text, "C last(\"c\")"));
        }
}

/* The same memory again: nothing of the code before is known. */
static void test_again(void **state)
{
        struct told t;

        assert_int_equal(read_text("x = 'a'", 7, &t), 0);
        assert_int_equal(read_text("y = x + 'b'", 11, &t), 0);
        assert_string_equal(t.text, "1:5 S {}b");
}

/* What is written in another encoding may be anything. */
static void test_encodings(void **state)
{
        static const struct {
                const char *code;
                int result;
        } codes[] = {
                {"# coding: utf-8\n", 0}, {"#!/bin/python\n# -*- coding: UTF_8 -*-\n", 0}, {"# vim: set fileencoding=latin-1 :\n", 0},
                {"# coding: utf-7\n", 1}, {"\n#coding=unicode_escape\n", 1}, {"#!x\r\n# encoding: raw-unicode-escape", 1},
                {"\xef\xbb\xbf# coding: utf-7\n", 1}, {"\r# coding: utf-7", 1}, {"# coding coding:\n", 0}, {"# coding coding: rot13\n", 1},
                {"\n\n# coding: utf-7\n", 0}, {"x = 'coding: utf-7'\n", 0}, {"# coding: ascii-and-a-long-name-behind-it\n", 1}, {"# coding:", 0},
        };
        struct told t;

        for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
                if (read_text(codes[i].code, strlen(codes[i].code), &t) != codes[i].result)
                        fail_msg("%s: not %d", codes[i].code, codes[i].result);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows), cmocka_unit_test(test_cut), cmocka_unit_test(test_floods), cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_again), cmocka_unit_test(test_encodings),
        };

        memory = mmap(NULL, reader_memory_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return memory == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
