#!/usr/bin/env python3
"""Ranks as threads against one rank, and against Python's DistributedDataParallel over Gloo of the same torch.

    scripts/bench/ranks.py [--build build/release] [--width 64] [--repeats 5]

Prints, from one run in which the sides take turns, medians with their range: images/s of a whole training step of
ResNet18 (fp32, channels-last, 32x32) with two ranks of one thread against one, at 64 and at 8 images a rank; a world of
one against the strategy of one device; the same step by two processes of Python's DDP; the exchange of one flat gradient
of 44.7 MB against Gloo's all_reduce; and the memory of both (PSS). Needs scripts/setup.sh test.
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRADIENT = 11_173_962  # parameters of ResNet18 with the CIFAR stem: 44.7 MB


def machine() -> str:
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    flags = next((line for line in info.splitlines() if line.startswith("flags")), "")
    features = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags.split()]
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {' '.join(features)}"


# ---------------------------------------------------------------- the peer, in processes of its own

def peer(rank: int, port: int, width: int, batch: int, steps: int, segments: int, exchange: bool) -> None:
    """Each segment starts when a line comes on stdin of rank 0, and ends with a line of JSON."""
    import torch
    import torch.distributed
    import torchvision

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    if exchange:
        vector = torch.ones(GRADIENT)

        def work():
            torch.distributed.all_reduce(vector)
            vector.mul_(0.5)
    else:
        net = torchvision.models.resnet18(num_classes=10, width_per_group=64)
        assert width == 64, "torchvision's ResNet18 has this width alone"
        net.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net.maxpool = torch.nn.Identity()
        ddp = torch.nn.parallel.DistributedDataParallel(net.to(memory_format=torch.channels_last), gradient_as_bucket_view=True)
        optimizer = torch.optim.SGD(ddp.parameters(), 0.01, 0.9, weight_decay=5e-4, nesterov=True, fused=True)
        images = torch.randn(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 10, (batch,))

        def work():
            for _ in range(steps):
                optimizer.zero_grad(set_to_none=True)
                torch.nn.functional.cross_entropy(ddp(images), labels).backward()
                optimizer.step()
    for _ in range(segments):
        if rank == 0:
            sys.stdin.readline()
        torch.distributed.barrier()
        start = time.perf_counter()
        work()
        torch.distributed.barrier()
        if rank == 0:
            print(json.dumps(time.perf_counter() - start), flush=True)
    if rank == 0:
        sys.stdin.readline()  # the memory of both is read before
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


class Peer:
    def __init__(self, *, width=64, batch=64, steps=2, segments=6, exchange=False):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        command = [ROOT / ".venv/bin/python", __file__, "--peer", str(port), str(width), str(batch), str(steps), str(segments), str(int(exchange))]
        self.processes = [subprocess.Popen([*command, str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for rank in (0, 1)]

    def segment(self) -> float:
        self.go()
        return json.loads(self.processes[0].stdout.readline())

    def go(self) -> None:
        self.processes[0].stdin.write("\n")
        self.processes[0].stdin.flush()

    def pss(self) -> int:
        return sum(pss_of(process.pid) for process in self.processes)

    def end(self) -> None:
        self.go()
        for process in self.processes:
            process.wait()


def pss_of(pid: int) -> int:
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


# ---------------------------------------------------------------- ours

class Ours:
    """bench/ranks_bench, a repeat at a time."""

    def __init__(self, build: pathlib.Path, **options: int):
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self.process = subprocess.Popen([build / "bench" / "ranks_bench", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def next(self) -> dict:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def row(name: str, values: list[float], form: str, mark: str = "") -> float:
    median = statistics.median(values)
    print(f"{name:58s} {form.format(median)}   ({form.format(min(values))} to {form.format(max(values))})   {mark}", flush=True)
    return median


def compare_steps(args: argparse.Namespace, batch: int, least: float, steps: int) -> bool:
    ours = Ours(args.build, width=args.width, batch=batch, ranks=2, repeats=args.repeats + 1, steps=steps)  # one more to be alive when its memory is read
    peer_ = Peer(width=args.width, batch=batch, steps=steps, segments=args.repeats + 1)
    peer_.segment()  # warms up
    lines, python = [], []
    for _ in range(args.repeats):
        lines.append(ours.next())
        python.append(2 * batch * steps / peer_.segment())
    memory = pss_of(ours.process.pid) / peer_.pss()
    ours.end()
    peer_.end()
    column = {key: [line[key] for line in lines] for key in lines[0]}
    print(f"\n{batch} images a rank, {args.repeats} repeats of {steps} steps")
    row("1 thread, strategy of one device: images/s", column["single_images_per_second"], "{:8.1f}")
    row("2 ranks of 1 thread: images/s", column["ranks_images_per_second"], "{:8.1f}")
    row("2 processes of Python's DDP: images/s", python, "{:8.1f}")
    ratio = [a / b for a, b in zip(column["ranks_images_per_second"], column["one_rank_images_per_second"])]
    reached = row("2 ranks against 1 rank", ratio, "{:7.2f}x", f"mark {least}x") >= least
    one = [a / b for a, b in zip(column["one_rank_images_per_second"], column["single_images_per_second"])]
    reached &= row("a world of one against the strategy of one device", one, "{:7.2f}x", "mark 0.99x") >= 0.99
    against = row("2 ranks against Python's DDP", [a / b for a, b in zip(column["ranks_images_per_second"], python)], "{:7.2f}x",
                  "mark 1.05x" if batch == 8 else "")
    if batch == 8:
        reached &= against >= 1.05
    else:
        reached &= row("memory (PSS) of the process against Python's two", [memory], "{:7.2f}x", "mark 0.7x") <= 0.7
    return reached


def compare_exchange(args: argparse.Namespace) -> bool:
    ours = Ours(args.build, exchange=GRADIENT, ranks=2, repeats=10 * args.repeats)
    peer_ = Peer(segments=10 * args.repeats + 2, exchange=True)
    for _ in range(2):
        peer_.segment()
    seconds, python = [], []
    for _ in range(10 * args.repeats):
        seconds.append(ours.next()["exchange_seconds"])
        python.append(peer_.segment())
    ours.end()
    peer_.end()
    print(f"\nsum of a gradient of 44.7 MB over 2 ranks, {10 * args.repeats} repeats")
    row("threads of one process: ms", [1e3 * value for value in seconds], "{:8.2f}")
    row("Python's Gloo, 2 processes: ms", [1e3 * value for value in python], "{:8.2f}")
    return row("ratio", [a / b for a, b in zip(seconds, python)], "{:7.2f}x", "mark 0.3x") <= 0.3


def main() -> int:
    if sys.argv[1:2] == ["--peer"]:
        port, width, batch, steps, segments, exchange, rank = map(int, sys.argv[2:])
        peer(rank, port, width, batch, steps, segments, bool(exchange))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    for name, value in (("width", 64), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    if args.repeats < 5:
        parser.error("--repeats: medians are of 5 or more")
    if not (args.build / "bench" / "ranks_bench").exists():
        subprocess.run(["cmake", "--build", args.build, "--target", "ranks_bench"], check=True)
    print(f"machine: {machine()}; load {os.getloadavg()[0]:.1f} before")
    print(f"ResNet18 width {args.width}, 32x32, fp32, channels-last, SGD with momentum; turns A B, median (range)")
    reached = [compare_exchange(args), compare_steps(args, 64, 1.8, 2), compare_steps(args, 8, 1.75, 8)]
    print(f"\nload {os.getloadavg()[0]:.1f} after")
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
