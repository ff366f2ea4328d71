"""Lists archives as Python's tarfile reads them: the file argv[1] holds each archive behind its length.

A line for each entry (kind, size, SHA-256 of the content, path in hexadecimal), then `end` or the error.
Nothing is extracted.
"""

import hashlib
import io
import struct
import sys
import tarfile


def entries(data):
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
        for member in archive:
            kind = "file" if member.isreg() else "directory" if member.isdir() else "other"
            content = archive.extractfile(member).read() if member.isreg() else b""
            path = member.name.encode("utf-8", "surrogateescape").hex()
            yield f"{kind} {member.size} {hashlib.sha256(content).hexdigest()} {path}"


def main():
    batch = io.BytesIO(open(sys.argv[1], "rb").read())
    while length := batch.read(4):
        data = batch.read(struct.unpack("<I", length)[0])
        try:
            for line in entries(data):
                print(line)
            print("end")
        except Exception as error:
            print("error", type(error).__name__, str(error).replace("\n", " "))


main()
