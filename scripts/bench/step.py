#!/usr/bin/env python3
"""Images/s of ResNet18's training step against eager PyTorch of the same wheel, in turn (A B A B), as medians.

    scripts/bench/step.py [--build build/release] [--widths 16 64] [--batch 64] [--repeats 5]
Forward, cross-entropy, backward and SGD with Nesterov momentum on 32 x 32 images, fp32, for each width, memory format and
number of threads (1 and all cores). Both sides are processes that stay and take turns. mgtrain's step includes the
gradient's norm and the check that all is finite, Python's does not. Prints a Markdown table. Exit 0 if every median ratio
is 1 or more; needs the environment that scripts/setup.sh test makes.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def machine() -> str:
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    return f"{model}, {len(os.sched_getaffinity(0))} cores"


def python_peer(width: int, batch: int, threads: int, layout: str, steps: int) -> None:
    """Answers as bench/step_bench.cpp does."""
    import torch
    import torchvision
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(1)

    class Narrow(torchvision.models.ResNet):
        def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
            if planes == 64:  # the first stage: the constructor has just made the stem
                self.inplanes, self.conv1 = width, torch.nn.Conv2d(3, width, 3, 1, 1, bias=False)
                self.bn1, self.maxpool = torch.nn.BatchNorm2d(width), torch.nn.Identity()
            return super()._make_layer(block, planes * width // 64, blocks, stride, dilate)

    memory_format = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    net = Narrow(torchvision.models.resnet.BasicBlock, [2, 2, 2, 2], num_classes=10)
    net.fc = torch.nn.Linear(8 * width, 10)
    net = net.to(memory_format=memory_format)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, 0.9, weight_decay=5e-4, nesterov=True, fused=True)
    images = torch.randn(batch, 3, 32, 32).contiguous(memory_format=memory_format)
    labels = torch.randint(10, (batch,))

    def run(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            loss = F.cross_entropy(net(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        return count * batch / (time.perf_counter() - start)

    run(2)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(run(steps), flush=True)


class Side:
    def __init__(self, command: list) -> None:
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"step.py: {command[0]} did not start")

    def images_per_second(self) -> float:
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def compare(args: argparse.Namespace, width: int, layout: str, threads: int) -> float:
    # Two seconds a turn or so.
    steps = max(2, round(10 * threads * (16 / width) ** 1.6))
    case = [width, args.batch, threads, layout, steps]
    program = args.build / "bench" / "step_bench"
    ours, theirs = Side([program, *case]), Side([ROOT / ".venv" / "bin" / "python", __file__, "--peer", *case])
    rows = [(ours.images_per_second(), theirs.images_per_second()) for _ in range(args.repeats)]
    ours.close()
    theirs.close()
    ratios = [mine / other for mine, other in rows]
    median = statistics.median(ratios)
    print(f"| {width} | {layout} | {threads} | {statistics.median(r[0] for r in rows):.0f} | {statistics.median(r[1] for r in rows):.0f} | "
          f"{median:.2f}x | {min(ratios):.2f} to {max(ratios):.2f} |", flush=True)
    return median


def main() -> int:
    if sys.argv[1:2] == ["--peer"]:
        width, batch, threads, layout, steps = sys.argv[2:]
        python_peer(int(width), int(batch), int(threads), layout, int(steps))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--widths", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    if args.repeats < 5:
        parser.error("--repeats: medians are of 5 or more")
    if not (args.build / "bench" / "step_bench").exists():
        subprocess.run(["cmake", "--build", args.build, "--target", "step_bench"], check=True)
    cores = len(os.sched_getaffinity(0))
    print(f"{machine()}; load {os.getloadavg()[0]:.1f} before; batch {args.batch}, {args.repeats} turns each\n")
    print("| width | format | threads | mgtrain images/s | Python images/s | median ratio | range |\n|---|---|---|---|---|---|---|")
    medians = [compare(args, width, layout, threads)
               for width in args.widths for layout in ("nchw", "nhwc") for threads in sorted({1, cores})]
    print(f"\nlowest median ratio {min(medians):.2f}x (wanted: 1 or more); load {os.getloadavg()[0]:.1f} after")
    return 0 if min(medians) >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
