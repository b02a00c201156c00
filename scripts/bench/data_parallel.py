#!/usr/bin/env python3
"""Two CPU replicas (one thread each) against one replica with one thread, and what replication costs.

Prints ratios from one run that measures both sides in turn (A B A B), as medians with their range, and the machine.
    scripts/bench/data_parallel.py [--build build/release] [--width 64] [--batch 64] [--replicas 2] [--repeats 5]
Exit 0 if the figures reach their marks (1.6x for two replicas, replication <= 3 % of a step), 1 if not.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys


def machine() -> str:
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    flags = next((line for line in info.splitlines() if line.startswith("flags")), "")
    features = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags.split()]
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {' '.join(features)}"


def row(name: str, values: list[float], form: str) -> None:
    median = statistics.median(values)
    print(f"{name:44s} {form.format(median)}   ({form.format(min(values))} to {form.format(max(values))})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--build", type=pathlib.Path, default=root / "build" / "release")
    for name, value in (("width", 64), ("batch", 64), ("replicas", 2), ("repeats", 5), ("steps", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    if args.repeats < 5:
        parser.error("--repeats: medians are of 5 or more")

    program = args.build / "bench" / "data_parallel_bench"
    if not program.exists():
        subprocess.run(["cmake", "-S", root, "-B", args.build, "-DMGTRAIN_BENCH=ON"], check=True)
        subprocess.run(["cmake", "--build", args.build, "--target", "data_parallel_bench"], check=True)
    command = [program]
    for name in ("width", "batch", "replicas", "repeats", "steps"):
        command += [f"--{name}", str(getattr(args, name))]
    load = os.getloadavg()[0]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    runs = [json.loads(line) for line in lines]

    print(f"machine: {machine()}; load {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    print(f"ResNet18 width {args.width}, 32x32, fp32, channels-last, {args.batch} images a replica, "
          f"{args.repeats} repeats of {args.steps} steps, A B A B; median (range)")
    column = {key: [run[key] for run in runs] for key in runs[0]}
    row("1 replica, 1 thread: images/s", column["single_images_per_second"], "{:8.1f}")
    row(f"{args.replicas} replicas, 1 thread each: images/s", column["parallel_images_per_second"], "{:8.1f}")
    row("ratio", column["speed_up"], "{:7.2f}x")
    row("replication's share of a step", [100 * share for share in column["replication_share"]], "{:7.2f}%")
    row("copies a step", column["copies_per_step"], "{:8.0f}")
    row("MB copied a step", [size / 1e6 for size in column["bytes_per_step"]], "{:8.1f}")
    share = statistics.median(column["replication_share"])
    fast_enough = args.replicas != 2 or statistics.median(column["speed_up"]) >= 1.6
    return 0 if fast_enough and share <= 0.03 else 1


if __name__ == "__main__":
    sys.exit(main())
