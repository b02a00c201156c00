#!/usr/bin/env python3
"""The quickstart against the same recipe in Python: test accuracy over seeds, and training seconds, in turn (A B A B).

    scripts/bench/quickstart.py [--build build/release] [--seeds 0 1 2] [--threads 2]
Both train ResNet18 of width 8 for 5 epochs over the embedded 10,000 images: batch 64, SGD 0.1 with Nesterov momentum,
weight decay 5e-4, 15 % warm-up, then cosine, flip only, an epoch's last 16 images dropped. Seconds are those of training: without start-up, reading the
data, evaluation and checkpoints. Prints a Markdown table. Exit 0 if every accuracy reaches 88 % and the median ratio
of seconds (Python / mgtrain) is 1 or more; needs the environment that scripts/setup.sh test makes.
"""
import argparse
import gzip
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "data" / "fashion-mnist-subset"


def machine() -> str:
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    return f"{model}, {len(os.sched_getaffinity(0))} cores"


def train_in_python(seed: int, threads: int) -> None:
    """The same recipe in eager PyTorch; prints {"test": ..., "seconds": ...}. Runs in a process of its own."""
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self, cin, cout, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
            self.conv2, self.bn2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
            self.relu, self.downsample = nn.ReLU(inplace=True), None
            if stride != 1 or cin != cout:
                self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            y += x if self.downsample is None else self.downsample(x)
            return self.relu(y)

    def idx(name):
        raw = gzip.decompress((DATA / f"{name}-ubyte.gz").read_bytes())
        shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
        return torch.from_numpy(np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape).copy())

    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x, y = idx("train-images-idx3")[:, None], idx("train-labels-idx1").long()
    tx, ty = idx("t10k-images-idx3")[:, None], idx("t10k-labels-idx1").long()
    mean, std = (x.float() / 255).mean(), (x.float() / 255).std()
    layers, cin = [nn.Conv2d(1, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)], 8
    for stage in range(4):
        layers += [Block(cin, 8 << stage, 2 if stage else 1), Block(8 << stage, 8 << stage, 1)]
        cin = 8 << stage
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, 10))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    net = net.to(memory_format=torch.channels_last)
    ready = lambda b: ((b.float() / 255 - mean) / std).contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True, fused=True)
    epochs, batch, step = 5, 64, 0
    total = epochs * (len(x) // batch)
    warm = round(0.15 * total)
    start = time.perf_counter()
    for _ in range(epochs):
        order = torch.randperm(len(x), generator=generator)
        for chosen in order[: len(x) // batch * batch].split(batch):
            rate = (step + 1) / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))
            optimizer.param_groups[0]["lr"] = 0.1 * rate
            images = x[chosen]
            flip = torch.rand(len(chosen), 1, 1, 1, generator=generator) < 0.5
            images = torch.where(flip, images.flip(3), images)
            loss = F.cross_entropy(net(ready(images)), y[chosen])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
    seconds = time.perf_counter() - start
    net.eval()
    with torch.inference_mode():
        hits = sum((net(ready(a)).argmax(1) == b).sum().item() for a, b in zip(tx.split(500), ty.split(500)))
    print(json.dumps({"test": hits / len(tx), "seconds": seconds}))


def train_in_mgtrain(program: pathlib.Path, seed: int, threads: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MGTRAIN_DATA=str(ROOT / "data"))
        command = [program, "--config", ROOT / "configs" / "quickstart.toml", "--gpus", "cpu", "--seed", str(seed)]
        subprocess.run([*command, "--quiet", "--output", f"{folder}/run"], check=True, stdout=subprocess.DEVNULL, env=environment)
        summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())
    return {"test": summary["val"]["top1"], "seconds": summary["samples_seen"] / summary["images_per_second"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--python-seed", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.python_seed is not None:
        train_in_python(args.python_seed, args.threads)
        return 0
    load = os.getloadavg()[0]
    rows = []
    for seed in args.seeds:
        ours = train_in_mgtrain(args.build / "mgtrain", seed, args.threads)
        command = [ROOT / ".venv" / "bin" / "python", __file__, "--python-seed", str(seed), "--threads", str(args.threads)]
        theirs = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        rows.append((seed, ours, theirs))
    print(f"{machine()}; {args.threads} threads; load {load:.1f} before, {os.getloadavg()[0]:.1f} after\n")
    print("| seed | mgtrain: test top-1 | training | Python: test top-1 | training | Python / mgtrain |")
    print("|---|---|---|---|---|---|")
    for seed, ours, theirs in rows:
        print(f"| {seed} | {100 * ours['test']:.2f} % | {ours['seconds']:.1f} s | {100 * theirs['test']:.2f} % | "
              f"{theirs['seconds']:.1f} s | {theirs['seconds'] / ours['seconds']:.2f}x |")
    ratio = statistics.median(theirs["seconds"] / ours["seconds"] for _, ours, theirs in rows)
    lowest = min(ours["test"] for _, ours, _ in rows)
    print(f"\nmedian ratio {ratio:.2f}x (wanted: 1 or more); lowest accuracy {100 * lowest:.2f} % (wanted: 88 or more)")
    return 0 if ratio >= 1 and lowest >= 0.88 else 1


if __name__ == "__main__":
    sys.exit(main())
