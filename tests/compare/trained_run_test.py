"""A run of the program itself, read back in Python: usage trained_run_test.py MGTRAIN SOURCE_DIR.

torchvision's ResNet18 with the weights of the checkpoint gives the probabilities that `mgtrain predict` gives, to 1e-5
(convolutions in another memory format); Python's tensorboard reads the scalars that metrics.jsonl has.
"""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import torchvision
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

COUNT = 16


def check(what, holds):
    if not holds:
        sys.exit(f"trained_run_test: {what} does not hold")


def test_images(source):
    raw = gzip.decompress((source / "data" / "fashion-mnist-subset" / "t10k-images-idx3-ubyte.gz").read_bytes())
    return np.frombuffer(raw, np.uint8, count=COUNT * 28 * 28, offset=16).reshape(COUNT, 1, 28, 28).copy()


def python_probabilities(checkpoint, images):
    """By torchvision's own module: the small stem, one channel in, ten classes."""
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1 = torch.nn.Conv2d(1, 64, 3, 1, 1, bias=False)
    net.maxpool = torch.nn.Identity()
    net.load_state_dict(safetensors.torch.load_file(checkpoint / "model.safetensors"), strict=True)
    net.eval()
    data = json.loads((checkpoint / "run.json").read_text())["dataset"]
    x = (torch.from_numpy(images).float() / 255 - data["mean"][0]) / data["stddev"][0]
    with torch.inference_mode():
        return net(x).double().softmax(1)


def program_probabilities(mgtrain, run, source, environment):
    file = source / "data" / "fashion-mnist-subset" / "t10k-images-idx3-ubyte.gz"
    items = [f"{file}:{i}" for i in range(COUNT)]
    command = [mgtrain, "predict", run, *items, "--topk", "10", "--json", "--gpus", "cpu"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout.splitlines()
    check("a line an item", len(lines) == COUNT)
    result = torch.zeros(COUNT, 10, dtype=torch.float64)
    for i, line in enumerate(lines):
        for prediction in json.loads(line)["predictions"]:
            result[i, prediction["class"]] = prediction["probability"]
    return result


def check_scalars(run):
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    accumulator = EventAccumulator(str(run))
    accumulator.Reload()
    for event, tag, key in (("step", "train/loss", "loss"), ("step", "train/lr", "learning_rate"), ("eval", "val/top1", "top1")):
        expected = [(e["step"], np.float32(e[key])) for e in events if e["event"] == event]
        seen = [(s.step, np.float32(s.value)) for s in accumulator.Scalars(tag)]
        check(f"tensorboard's {tag} is that of metrics.jsonl", expected and seen == expected)


def main():
    mgtrain, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MGTRAIN_")}
    environment["MGTRAIN_DATA"] = str(source / "data")
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        flags = ["--steps", "4", "--batch", "16", "--log-every", "1", "--val", "1%", "--gpus", "cpu:2"]
        subprocess.run([mgtrain, *flags, "--output", run, "--quiet"], check=True, stdout=subprocess.DEVNULL, env=environment)
        theirs = python_probabilities(run / "best", test_images(source))
        ours = program_probabilities(mgtrain, run, source, environment)
        difference = (ours - theirs).abs().max().item()
        check(f"equal probabilities (largest difference {difference:.1e})", difference <= 1e-5)
        check_scalars(run)
    print(f"trained_run_test: torchvision's ResNet18 gives the program's probabilities (largest difference {difference:.1e})")


if __name__ == "__main__":
    main()
