"""The book chapter's experiment in ten steps, in Python: usage chapter_test.py CHAPTER_SAMPLE RECIPE [--full].

The same batches and weights must give the same losses: the first to 1e-5 in fp32 (later ones part by rounding within a
few steps), all ten to 1e-8 in fp64. The recipe's own width and batch take minutes (--full); by default both are eight
times smaller, all else is as the recipe has it.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import torchvision
from torch.nn import functional as F

STEPS = 10


def check(what, holds):
    if not holds:
        sys.exit(f"chapter_test: {what} does not hold")


def narrow_resnet18(width, dtype):
    """torchvision's ResNet18 (ImageNet stem, ten classes) with `width` channels in its first stage."""

    class Narrow(torchvision.models.ResNet):
        def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
            if planes == 64:  # the first stage: the constructor has just made the stem
                self.inplanes = width
                self.conv1 = torch.nn.Conv2d(3, width, 7, 2, 3, bias=False)
                self.bn1 = torch.nn.BatchNorm2d(width)
            return super()._make_layer(block, planes * width // 64, blocks, stride, dilate)

    net = Narrow(torchvision.models.resnet.BasicBlock, [2, 2, 2, 2], num_classes=10)
    net.fc = torch.nn.Linear(8 * width, 10)
    return net.to(dtype)


def python_losses(record, width, dtype):
    net = narrow_resnet18(width, dtype)
    start = {name.removeprefix("start."): t for name, t in record.items() if name.startswith("start.")}
    net.load_state_dict(start, strict=True)
    net = net.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    losses, norms = [], []
    for step in range(STEPS):
        images = record[f"images.{step}"].contiguous(memory_format=torch.channels_last)
        loss = F.cross_entropy(net(images), record[f"labels.{step}"])
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def relative(ours, theirs):
    differences = [abs(a - b) / abs(b) for a, b in zip(ours, theirs)]
    return max(differences) if all(d == d for d in differences) else float("inf")  # max() may pass over a NaN


def compare(sample, recipe, dtype, width, batch):
    with tempfile.TemporaryDirectory() as folder:
        record_file, losses_file = f"{folder}/record.safetensors", f"{folder}/losses.json"
        settings = [f"train.steps={STEPS}", f"train.batch={batch}", f"model.width={width}", "devices.gpus=cpu",
                    "data.val=none", f"train.dtype=float{64 if dtype == torch.float64 else 32}"]
        subprocess.run([sample, recipe, record_file, losses_file, *settings], check=True)
        ours = json.loads(pathlib.Path(losses_file).read_text())
        record = safetensors.torch.load_file(record_file)
    check("ten reports", len(ours) == STEPS)
    check("images of 96 x 96, not normalised", record["images.0"].shape == (batch, 3, 96, 96)
          and 0 <= record["images.0"].min() and record["images.0"].max() <= 1)
    check("a constant rate of 1e-3", all(step["lr"] == 1e-3 for step in ours))
    losses, norms = python_losses(record, width, dtype)
    check("the gradient is clipped in some step", max(norms) > 0.5)
    first = relative([ours[0]["loss"]], losses[:1])
    every = relative([step["loss"] for step in ours], losses)
    norm = relative([step["grad_norm"] for step in ours[:1]], norms[:1])
    print(f"chapter_test: width {width}, batch {batch}, {dtype}: relative difference of the first loss {first:.1e}, "
          f"of the first norm {norm:.1e}, the largest of ten losses {every:.1e}")
    if dtype == torch.float64:
        check("all losses to 1e-8 in fp64", every <= 1e-8)
    else:
        check("the first loss to 1e-5 in fp32", first <= 1e-5)
        check("the first norm to 1e-3 in fp32", norm <= 1e-3)


def main():
    full = "--full" in sys.argv[3:]
    width, batch = (64, 128) if full else (8, 16)
    for dtype in (torch.float32, torch.float64):
        compare(sys.argv[1], sys.argv[2], dtype, width, batch)


if __name__ == "__main__":
    main()
