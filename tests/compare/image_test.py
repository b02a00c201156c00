"""mgtrain's resize equals Pillow's, its crop, flip and normalise equal torchvision's: usage image_test.py IMAGE_SAMPLE."""

import random
import subprocess
import sys

import numpy
import PIL
import torch
import torchvision
from PIL import Image
from torchvision.transforms import functional

PROGRAM = sys.argv[1]
GENERATOR = numpy.random.default_rng(0)


def image_of(channels, height, width, kind):
    """Noise, noise of black and white, a smooth picture, or white."""
    shape = (height, width, channels)
    if kind == "noise":
        return GENERATOR.integers(0, 256, shape, dtype=numpy.uint8)
    if kind == "black and white":
        return (GENERATOR.integers(0, 2, shape) * 255).astype(numpy.uint8)
    if kind == "smooth":
        y, x, c = numpy.meshgrid(numpy.arange(height), numpy.arange(width), numpy.arange(channels), indexing="ij")
        return (127.5 + 127.5 * numpy.sin(0.3 * x + 0.2 * y + c)).astype(numpy.uint8)
    return numpy.full(shape, 255, numpy.uint8)


def run(image, *arguments):
    command = [PROGRAM, *(str(argument) for argument in arguments)]
    return subprocess.run(command, input=image.tobytes(), stdout=subprocess.PIPE, check=True).stdout


def as_pil(image):
    return Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)


def compare_resize(channels, height, width, to_height, to_width, kind):
    """Largest difference, in steps of 1/255."""
    image = image_of(channels, height, width, kind)
    expected = numpy.asarray(as_pil(image).resize((to_width, to_height), Image.BILINEAR), dtype=int)
    bytes_out = run(image, "resize", channels, height, width, to_height, to_width)
    actual = numpy.frombuffer(bytes_out, numpy.uint8).astype(int)
    return abs(actual - expected.reshape(-1)).max()


def check_resizes():
    # The sizes that recipes use, and enlargements and square images in general: the same bits.
    equal = [(32, 32, 96, 96), (28, 28, 32, 32), (32, 32, 224, 224), (224, 224, 96, 96), (224, 224, 32, 32),
             (28, 28, 96, 96), (33, 33, 32, 32), (96, 96, 33, 33), (7, 13, 29, 31), (1, 1, 5, 5), (32, 32, 32, 45),
             (32, 32, 45, 32), (32, 32, 32, 17), (32, 32, 17, 32), (64, 48, 64, 48), (3, 5, 4, 300)]
    # Anything: within 1.
    near = [(500, 375, 224, 224), (375, 500, 224, 224), (100, 3, 99, 200), (3, 100, 200, 99), (5, 1, 1, 9)]
    pick = random.Random(1)
    near += [tuple(pick.randint(1, 130) for _ in range(4)) for _ in range(60)]
    count = differing = 0
    for sizes, bound in [(sizes, 0) for sizes in equal] + [(sizes, 1) for sizes in near]:
        for channels in (1, 3):
            kinds = ("noise", "black and white", "smooth", "white") if bound == 0 else ("noise", "black and white")
            for kind in kinds:
                worst = compare_resize(channels, *sizes, kind)
                count += 1
                differing += worst > 0
                if worst > bound:
                    sys.exit(f"image_test: {channels}x{sizes}, {kind}: differs from Pillow by {worst}/255")
    print(f"image_test: {count} resizes within 1/255 of Pillow {PIL.__version__}, {count - differing} of them equal")


def check_transforms():
    means = {0: [], 1: [0.2860], 3: [0.4914, 0.4822, 0.4465]}
    deviations = {0: [], 1: [0.3530], 3: [0.2470, 0.2435, 0.2616]}
    count = flipped = 0
    for channels, height, width, to_height, to_width, padding, normalised in [
            (3, 32, 32, 32, 32, 4, True), (1, 28, 28, 28, 28, 2, True), (3, 32, 32, 32, 32, 4, False),
            (3, 32, 32, 96, 96, 0, False), (1, 28, 28, 32, 32, 4, True), (3, 9, 13, 9, 13, 20, True)]:
        mean = means[channels if normalised else 0]
        deviation = deviations[channels if normalised else 0]
        for sample in range(16):
            nhwc, epoch = sample % 2, sample // 4
            image = image_of(channels, height, width, "noise")
            raw = run(image, "augment", channels, height, width, to_height, to_width, padding, 1, nhwc, epoch, sample,
                      *mean, *deviation)
            flip, top, left = numpy.frombuffer(raw[:24], numpy.int64)
            actual = torch.from_numpy(numpy.frombuffer(raw[24:], numpy.float32).copy())
            if nhwc:
                actual = actual.reshape(to_height, to_width, channels).permute(2, 0, 1)
            else:
                actual = actual.reshape(channels, to_height, to_width)

            picture = as_pil(image).resize((to_width, to_height), Image.BILINEAR)
            picture = functional.crop(functional.pad(picture, padding), int(top), int(left), to_height, to_width)
            tensor = functional.to_tensor(functional.hflip(picture) if flip else picture)
            expected = functional.normalize(tensor, mean, deviation) if normalised else tensor
            if not torch.equal(actual, expected):
                sys.exit(f"image_test: {channels}x{height}x{width} to {to_height}x{to_width}, padding {padding}, sample "
                         f"{sample}: differs from torchvision by {(actual - expected).abs().max().item()}")
            count += 1
            flipped += int(flip)
    if not count // 4 < flipped < 3 * count // 4:
        sys.exit(f"image_test: {flipped} of {count} images were flipped")
    print(f"image_test: {count} transformed images equal torchvision {torchvision.__version__}'s bit for bit")


check_resizes()
check_transforms()
