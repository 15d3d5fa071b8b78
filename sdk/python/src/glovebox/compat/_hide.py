# SPDX-License-Identifier: Apache-2.0
"""A project without its credential files: which parts of it are mounted."""
from __future__ import annotations

import fnmatch
import os
import pathlib
import re
import stat
from typing import List, Optional, Tuple

from ..errors import LimitError, NotFoundError

#: Names of files and directories that are never mounted, in lower case. A pattern with a slash is the end of a path.
HIDDEN = (
    # settings of programs, with their passwords
    ".env", ".env.*", "*.env", ".envrc", "secrets.*", ".secrets", "credentials*.json", ".credentials*.json", "client_secret*.json",
    "service[_-]account*.json", "application_default_credentials.json", ".htpasswd", ".pgpass", ".my.cnf", ".mylogin.cnf", ".mongorc.js", ".rediscli_auth",
    # clouds, clusters, containers
    ".aws", ".azure", ".kube", "kubeconfig", "kubeconfig.*", "*.kubeconfig", ".docker", ".dockercfg", ".s3cfg", ".boto", ".vault-token", "gcloud/credentials.db",
    "gcloud/access_tokens.db", "gcloud/legacy_credentials", "containers/auth.json", "*.tfstate", "*.tfstate.*", "*.tfvars", ".terraformrc",
    # forges, package managers, services
    ".git-credentials", "git/credentials", ".netrc", "_netrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".gem/credentials", ".cargo/credentials",
    ".cargo/credentials.toml", ".m2/settings.xml", ".m2/settings-security.xml", ".composer/auth.json", "pip/pip.conf", "gh/hosts.yml", ".config/hub",
    "glab-cli/config.yml", "tea/config.yml", ".claude.json", ".codex/auth.json", ".openai/auth.json", ".anthropic/api_key", ".gemini/oauth_creds.json",
    "huggingface/token", "huggingface/stored_tokens", ".huggingface/token", "kaggle.json", "wandb/settings",
    # keys, and what keeps them
    ".ssh", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.key", "*.ppk", "*.p12",
    "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.agilekeychain", "*.opvault", ".gnupg", "secring.gpg", ".password-store", "keyrings",
    # what people have typed, and browsers have kept
    ".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history", ".node_repl_history", "logins.json", "key3.db", "key4.db",
    "cookies.sqlite", "login data",
)
#: Names of hidden patterns that are made to be shown.
SHOWN = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", "id_*.pub")
#: Files that hold a key or a public certificate: what is in them decides.
PEM = ("*.pem", "*.crt", "*.cer", "*.asc")
PEM_BYTES_MAX = 4 << 20  # what is larger is hidden
MOUNTS_MAX = 32     # of one policy
ENTRIES_MAX = 50000
ENV_BYTES_MAX = 1 << 20


def is_hidden(path: str) -> bool:
    """Whether it holds credentials, by its name and those of the directories above it; of keys and certificates, by what is in it."""
    parts = path.lower().rsplit("/", 2)
    name, end = parts[-1], "/".join(parts[-2:])
    if any(fnmatch.fnmatchcase(end if "/" in pattern else name, pattern) for pattern in HIDDEN):
        return not any(fnmatch.fnmatchcase(name, pattern) for pattern in SHOWN)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in PEM) and _holds_key(path)


def _holds_key(path: str) -> bool:
    """Whether a file has a private key in it. One that cannot be read may have one."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # a pipe has no writer
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            content = file.read(PEM_BYTES_MAX + 1)
    except OSError:
        return not os.path.isdir(path)
    is_binary = path.lower().endswith(".pem") and b"-----BEGIN " not in content  # perhaps a key without its armour
    return len(content) > PEM_BYTES_MAX or b"PRIVATE KEY" in content or is_binary


def _entries(place: pathlib.Path) -> "List[os.DirEntry[str]]":
    try:
        with os.scandir(place) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise NotFoundError(f"the project directory {place} cannot be read: {error.strerror}") from error


def _holds_hidden(place: pathlib.Path, left: List[int]) -> bool:
    """Whether there is something to hide anywhere below."""
    for entry in _entries(place):
        left[0] -= 1
        if left[0] < 0:
            raise LimitError(f"the project has more than {ENTRIES_MAX} files", hint="name the directory of it that the code needs")
        if is_hidden(entry.path) or (entry.is_dir(follow_symlinks=False) and _holds_hidden(pathlib.Path(entry.path), left)):
            return True
    return False


def visible(project: pathlib.Path, target: str) -> List[Tuple[str, str]]:
    """(source, target) of what shows the project at target: itself where nothing in it is to be hidden, else its parts."""
    if not project.is_dir():
        raise NotFoundError(f"there is no project directory {project}")
    mounts: List[Tuple[str, str]] = []
    left = [ENTRIES_MAX]

    def show(place: pathlib.Path, at: str) -> None:
        if not _holds_hidden(place, left):
            mounts.append((str(place), at))
            return
        for entry in _entries(place):
            if is_hidden(entry.path) or entry.is_symlink():
                continue
            if entry.is_dir():
                show(pathlib.Path(entry.path), f"{at}/{entry.name}")
            elif entry.is_file():
                mounts.append((entry.path, f"{at}/{entry.name}"))
    show(project, target)
    if len(mounts) > MOUNTS_MAX:
        raise LimitError(f"credential files lie among {len(mounts)} files and directories of {project}, and {MOUNTS_MAX} can be shown one by one",
                         hint="keep .env and the like in a directory of their own, or name a part of the project")
    return mounts


_NAME = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]{0,62})[ \t]*\Z")


def _value(line: str) -> Optional[Tuple[str, str]]:
    name, separator, value = line.partition("=")
    value = value.strip()
    if not separator or name.lstrip().startswith("#"):
        return None
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    named = _NAME.match(name)
    return (named.group(1) if named else "known", value) if value else None


def values_of_env_files(project: pathlib.Path) -> List[Tuple[str, str]]:
    """Names and values in the project's own .env files: secrets that must not leave."""
    values = []
    for entry in _entries(project) if project.is_dir() else []:
        if not entry.is_file(follow_symlinks=False) or not (entry.name == ".env" or entry.name.startswith(".env.")):
            continue
        try:
            with open(entry.path, encoding="utf-8", errors="replace") as file:
                text = file.read(ENV_BYTES_MAX + 1)
        except OSError:
            continue  # what we cannot read, the code cannot either
        if len(text) > ENV_BYTES_MAX:
            raise LimitError(f"{entry.path} is larger than {ENV_BYTES_MAX} bytes, so not all of its secrets are known")
        values += [value for value in map(_value, text.splitlines()) if value]
    return values
