"""mgtrain's pixels of PNG files equal Pillow's convert("RGB") and convert("L"): usage png_test.py PNG_SAMPLE."""

import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy
import PIL
from PIL import Image

PROGRAM = sys.argv[1]
GENERATOR = numpy.random.default_rng(0)
HEIGHT, WIDTH = 23, 37


def noise(*channels):
    return GENERATOR.integers(0, 256, (HEIGHT, WIDTH, *channels), dtype=numpy.uint8)


def png_of(header_tail, rows):
    """A PNG by hand, for what Pillow does not write: 16 bits a sample of colour, few bits of grey."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">II", WIDTH, HEIGHT) + bytes(header_tail) + bytes([0, 0, 0])
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def pictures(folder):
    """Name and file of each kind of PNG."""
    made = {
        "grey": Image.fromarray(noise()),
        "grey and alpha": Image.fromarray(noise(2), "LA"),
        "rgb": Image.fromarray(noise(3)),
        "rgba": Image.fromarray(noise(4)),
        "1 bit": Image.fromarray(noise() > 127),
        "palette": Image.fromarray(noise(3)).quantize(256),
        "palette of 4 bits": Image.fromarray(noise(3)).quantize(13),
        "palette of 2 bits": Image.fromarray(noise(3)).quantize(3),
    }
    for name, image in made.items():
        image.save(folder / f"{name}.png")
        yield name, folder / f"{name}.png"
    made["palette"].save(folder / "transparent.png", transparency=7)
    yield "palette with transparency", folder / "transparent.png"
    by_hand = {
        "rgb of 16 bits": png_of([16, 2], [GENERATOR.bytes(6 * WIDTH) for _ in range(HEIGHT)]),
        "rgba of 16 bits": png_of([16, 6], [GENERATOR.bytes(8 * WIDTH) for _ in range(HEIGHT)]),
        "grey of 2 bits": png_of([2, 0], [GENERATOR.bytes((2 * WIDTH + 7) // 8) for _ in range(HEIGHT)]),
        "grey of 4 bits": png_of([4, 0], [GENERATOR.bytes((4 * WIDTH + 7) // 8) for _ in range(HEIGHT)]),
    }
    for name, data in by_hand.items():
        (folder / f"{name}.png").write_bytes(data)
        yield name, folder / f"{name}.png"


def main():
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, file in pictures(pathlib.Path(folder)):
            for mode, channels in (("RGB", 3), ("L", 1)):
                expected = numpy.asarray(Image.open(file).convert(mode)).reshape(-1)
                if name.startswith("palette") and mode == "L":
                    # The luma of the palette's colours: Pillow's short cut for transparent palettes differs by version.
                    expected = numpy.asarray(Image.open(file).convert("RGB").convert("L")).reshape(-1)
                output = subprocess.run([PROGRAM, file, str(channels)], stdout=subprocess.PIPE, check=True).stdout
                actual = numpy.frombuffer(output, numpy.uint8)
                assert actual.shape == expected.shape, (name, mode, actual.shape)
                difference = abs(actual.astype(int) - expected).max()
                assert difference == 0, f"{name} as {mode}: differs by {difference} of 255"
                count += 1
    print(f"{count} pictures decoded as Pillow {PIL.__version__} decodes them")


main()
