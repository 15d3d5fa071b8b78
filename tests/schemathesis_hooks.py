# SPDX-License-Identifier: Apache-2.0
"""What schemathesis sends as an archive: some that are, some that are not."""
import gzip
import io
import tarfile

import schemathesis
from hypothesis import strategies


def archive(entries):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in entries:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


TARS = [archive([]), archive([("a", b"x")]), archive([("d/e/f", b"y" * 1000), ("g", b"")]), archive([("../up", b"z")]), archive([("/etc/x", b"z")])]
schemathesis.openapi.media_type("application/x-tar", strategies.sampled_from(TARS) | strategies.binary(max_size=2000))
schemathesis.openapi.media_type("application/gzip", strategies.sampled_from([gzip.compress(tar) for tar in TARS]) | strategies.binary(max_size=2000))
