#!/usr/bin/env python3
"""The data path against torchvision's: images/s a core of random crop (padding 4), flip and normalise, CIFAR-shaped.

    scripts/bench/loader.py [--build build/release] [--repeats 5] [--images 10000] [--resize 32]
Both read 50,000 synthetic 32x32x3 images that lie in memory as bytes; torchvision by its own CIFAR10 dataset, transforms
and DataLoader with 0 and with 2 workers, batch 128. They take turns (A B A B); medians with their range. Rates a core
are images a second of CPU time, of all threads and processes, so that other load on the machine weighs on neither side.
Prints a Markdown table. Exit 0 if the ratio to the better torchvision is 50 or more, 1 if not; with --resize N both
resize as well, 32 to N, and there is no mark. Needs the environment that scripts/setup.sh test makes.
"""
import argparse
import datetime
import json
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
    flags = next((line for line in info.splitlines() if line.startswith("flags")), "").split()
    features = [name for name in ("avx2", "avx512f") if name in flags]
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {' '.join(features)}"


def torchvision_rate(workers: int, images: int, batch: int, resize: int) -> None:
    """Prints images/s of one DataLoader as JSON. Runs in a process of its own."""
    import numpy
    import torch
    import torchvision
    from torchvision import transforms

    torch.set_num_threads(1)
    torch.manual_seed(0)
    steps = [transforms.RandomCrop(resize, padding=4), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
             transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))]
    if resize != 32:
        steps.insert(0, transforms.Resize(resize))
    data = torchvision.datasets.CIFAR10.__new__(torchvision.datasets.CIFAR10)  # its __getitem__, without its files
    data.data = numpy.random.default_rng(0).integers(0, 256, (50_000, 32, 32, 3), dtype=numpy.uint8)
    data.targets = [i % 10 for i in range(50_000)]
    data.transform, data.target_transform = transforms.Compose(steps), None

    loader = torch.utils.data.DataLoader(data, batch, shuffle=True, num_workers=workers, drop_last=True)
    iterator = iter(loader)
    next(iterator)  # start-up and the first batch are not counted in time
    began, seen = time.perf_counter(), 0
    cpu_began = cpu_seconds(iterator)
    while seen < images:
        seen += len(next(iterator)[0])
    seconds, cpu = time.perf_counter() - began, cpu_seconds(iterator) - cpu_began
    print(json.dumps({"images_per_second": seen / seconds, "images_per_core_second": seen / cpu}))


def cpu_seconds(iterator) -> float:
    """Of this process and of the DataLoader's workers, so far."""
    ticks = 0
    for process in [os.getpid(), *(worker.pid for worker in getattr(iterator, "_workers", []))]:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def counted(workers: int) -> str:
    return f"{workers} worker" + ("" if workers == 1 else "s")


def shown(values: list[float], form: str) -> str:
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--images", type=int, default=10_000, help="that torchvision makes in each repeat")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--resize", type=int, default=32)
    parser.add_argument("--torchvision", type=int, metavar="WORKERS", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torchvision is not None:
        torchvision_rate(args.torchvision, args.images, args.batch, args.resize)
        return 0
    if args.repeats < 5:
        parser.error("--repeats: medians are of 5 or more")
    python = ROOT / ".venv" / "bin" / "python"
    if subprocess.run([python, "-c", "import torchvision"], stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"loader.py: {python} cannot import torchvision; scripts/setup.sh test installs it")

    program = args.build / "bench" / "loader_bench"
    if not program.exists():
        subprocess.run(["cmake", "-S", ROOT, "-B", args.build], check=True)
        subprocess.run(["cmake", "--build", args.build, "--target", "loader_bench"], check=True)
    # A resize costs some 25 times as much: fewer epochs are as exact.
    ours_command = [program, "--batch", str(args.batch), "--resize", str(args.resize),
                    "--epochs", "10" if args.resize == 32 else "1"]
    theirs_command = [python, __file__, "--images", str(args.images), "--batch", str(args.batch), "--resize",
                      str(args.resize)]

    def run(command) -> dict:
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)

    load = os.getloadavg()[0]
    ours, theirs = [], {0: [], 2: []}
    for _ in range(args.repeats):
        ours.append(run(ours_command))
        for workers, rates in theirs.items():
            rates.append(run([*theirs_command, "--torchvision", str(workers)]))

    print(f"{datetime.date.today()}, {machine()}; load {load:.1f} before, {os.getloadavg()[0]:.1f} after; "
          f"{args.repeats} repeats in turn, median (range)\n")
    print("| images/s | a core | by the clock |\n|---|---|---|")
    for workers in (0, 1, 2):
        rates = [repeat[f"workers_{workers}"] for repeat in ours]
        print(f"| mgtrain, {counted(workers)} | {shown([rate['images_per_core_second'] for rate in rates], '{:,.0f}')} | "
              f"{shown([rate['images_per_second'] for rate in rates], '{:,.0f}')} |")
    for workers, rates in theirs.items():
        print(f"| torchvision, {counted(workers)} | {shown([rate['images_per_core_second'] for rate in rates], '{:,.0f}')} | "
              f"{shown([rate['images_per_second'] for rate in rates], '{:,.0f}')} |")

    core = [repeat["workers_0"]["images_per_core_second"] for repeat in ours]
    better = [max(theirs[workers][i]["images_per_core_second"] for workers in theirs) for i in range(args.repeats)]
    ratios = [a / b for a, b in zip(core, better)]
    print(f"\n- mgtrain / the better torchvision, a core: {shown(ratios, '{:.0f}x')}")
    written = [rate * repeat["bytes_per_image"] for rate, repeat in zip(core, ours)]
    print(f"- floats written by a core: {shown([rate / 1e9 for rate in written], '{:.1f}')} GB/s")
    for key, name in (("memset", "memset"), ("store", "plain stores")):
        bandwidth = [repeat[f"{key}_bytes_per_core_second"] for repeat in ours]
        print(f"- {name} over the same buffers: {shown([rate / 1e9 for rate in bandwidth], '{:.1f}')} GB/s; share of it "
              f"reached: {shown([100 * a / b for a, b in zip(written, bandwidth)], '{:.0f}')} %")
    return 0 if args.resize != 32 or statistics.median(ratios) >= 50 else 1


if __name__ == "__main__":
    sys.exit(main())
