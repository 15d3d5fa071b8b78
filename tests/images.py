# SPDX-License-Identifier: Apache-2.0
"""Archives of images, good and bad, and a store of its own to import them into."""
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile

TAR = "application/vnd.oci.image.layer.v1.tar"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


def entry(name, data=None, kind=None, link="", mode=None, **more):
    """A file with data, a directory without; `kind` makes it something else."""
    info = tarfile.TarInfo(name)
    info.type = kind or (tarfile.DIRTYPE if data is None else tarfile.REGTYPE)
    info.size, info.linkname = len(data or b""), link
    info.mode = mode if mode is not None else 0o755 if info.isdir() else 0o644
    info.mtime = 1_600_000_000
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def symlink(name, target):
    return entry(name, kind=tarfile.SYMTYPE, link=target, mode=0o777)


def hardlink(name, target):
    return entry(name, kind=tarfile.LNKTYPE, link=target)


def tar(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


def zeros_tar(name, size):
    """A file of that many zeros; they are not in the archive, which ends too early unless somebody refuses the head."""
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def digest(data):
    return hashlib.sha256(data).hexdigest()


def layout(*layers, config=None, manifest=None, index=None, change=None, packed=()):
    """The files of an OCI layout. `change` may edit them at the end; layers whose number is in `packed` are compressed."""
    files, described = {}, []

    def blob(data, kind):
        files[f"blobs/sha256/{digest(data)}"] = data
        return {"mediaType": kind, "digest": f"sha256:{digest(data)}", "size": len(data)}

    for i, layer in enumerate(layers):
        described.append(blob(gzip.compress(layer, 1), f"{TAR}+gzip") if i in packed else blob(layer, TAR))
    config = config or {"architecture": ARCHITECTURE, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(one)}" for one in layers]}}
    body = {"schemaVersion": 2, "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"), "layers": described}
    body.update(manifest or {})
    top = blob(json.dumps(body).encode(), "application/vnd.oci.image.manifest.v1+json")
    files["index.json"] = json.dumps(index or {"schemaVersion": 2, "manifests": [top]}).encode()
    files["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
    if change:
        change(files)
    return files


def docker_save(*layers):
    """The files that `docker save` of 20.10 writes; a layer that is there again is a link."""
    config = json.dumps({"architecture": ARCHITECTURE, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(one)}" for one in layers]}}).encode()
    entries, names, seen = [], [], {}
    for i, layer in enumerate(layers):
        name = digest(f"{i}".encode())
        entries += [entry(f"{name}/"), entry(f"{name}/VERSION", b"1.0")]
        if layer in seen:
            entries.append(symlink(f"{name}/layer.tar", f"../{seen[layer]}/layer.tar"))
        else:
            entries.append(entry(f"{name}/layer.tar", layer))
        seen.setdefault(layer, name)
        names.append(f"{name}/layer.tar")
    entries.append(entry(f"{digest(config)}.json", config))
    entries.append(entry("manifest.json", json.dumps([{"Config": f"{digest(config)}.json", "RepoTags": ["x:latest"], "Layers": names}]).encode()))
    return tar(*entries)


def layout_tar(files):
    return tar(*(entry(name, data) for name, data in files.items()))


class Store:
    """The command with a store in a directory of its own."""

    def __init__(self, box):
        self.box, self.path = box, box.directory("images")
        self.environ = {"GLOVEBOX_IMAGES": str(self.path), "HOME": str(self.path)}

    def call(self, *words, data=None, **options):
        if data is None:
            return self.box.call("image", *words, environ=self.environ, **options)
        process = subprocess.Popen([str(self.box.binary), "image", *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**self.box.environ, **self.environ}, **self.box.ids)
        return self.box.finish(process, data)

    def bring(self, data, name="it"):
        return self.call("import", "-", name, "--json", data=data)

    def root(self, name="it"):
        return self.path / name / "rootfs"

    def left(self):
        """All but what the store itself is made of."""
        return sorted(p.relative_to(self.path).as_posix() for top in (self.path, self.path / ".making") if top.exists() for p in top.iterdir()
                      if p.name not in (".making", ".locks", ".cache"))
