#!/usr/bin/env python3
"""Makes data/fashion-mnist-subset/: the first 10,000 training and 2,000 test images of Fashion-MNIST.

Usage: scripts/make_embedded_data.py [SOURCE] [DESTINATION]

SOURCE is the folder of the four whole files; by default where Debian's package dataset-fashion-mnist puts them
(apt-get install dataset-fashion-mnist). The same input and zlib give the same bytes.
"""
import gzip
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTS = {"train": 10_000, "t10k": 2_000}
# Kind -> magic number, bytes of the header, bytes of a record.
KINDS = {"images-idx3": (2051, 16, 28 * 28), "labels-idx1": (2049, 8, 1)}


def first_records(file: pathlib.Path, kind: str, count: int) -> bytes:
    """An IDX file of the first `count` records of `file`."""
    magic, header, record = KINDS[kind]
    data = gzip.decompress(file.read_bytes())
    seen_magic, total = struct.unpack(">ii", data[:8])
    if seen_magic != magic or total < count or len(data) != header + total * record:
        sys.exit(f"{file}: not the expected IDX file (magic {seen_magic}, {total} records, {len(data)} bytes)")
    return data[:4] + struct.pack(">i", count) + data[8 : header + count * record]


def main() -> None:
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist")
    destination = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "data" / "fashion-mnist-subset"
    destination.mkdir(parents=True, exist_ok=True)
    for part, count in COUNTS.items():
        for kind in KINDS:
            name = f"{part}-{kind}-ubyte.gz"
            if not (source / name).is_file():
                sys.exit(f"{source / name} is missing; apt-get install dataset-fashion-mnist, or name its folder")
            packed = gzip.compress(first_records(source / name, kind, count), compresslevel=9, mtime=0)
            # Byte 9 of the header names the operating system that packed it: 255, unknown.
            packed = packed[:9] + b"\xff" + packed[10:]
            (destination / name).write_bytes(packed)
            print(f"{destination / name}: {count} records, {len(packed)} bytes")


if __name__ == "__main__":
    main()
