"""Ranks against Python's DistributedDataParallel over Gloo: usage ddp_test.py DDP_SAMPLE.

ResNet18 of torchvision with the CIFAR stem, two ranks of one thread, equal shares (DDP averages over ranks, so it is
exact for these alone), five steps of SGD with momentum, the same weights and batches. Differences are relative to each
tensor's largest value. fp64: 1e-11 after all steps. fp32: gradients of the first step 1e-3 (kernels add in another
order where buffers lie elsewhere); later steps part by rounding.
"""

import os
import socket
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import torch.distributed
import torch.multiprocessing
import torchvision

RANKS, STEPS, SHARE = 2, 5, 6


def check(what, holds):
    if not holds:
        sys.exit(f"ddp_test: {what} does not hold")


def make_net():
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.maxpool = torch.nn.Identity()
    return net


def python_rank(rank, port, folder, dtype):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    record = safetensors.torch.load_file(f"{folder}/in")
    net = make_net().to(dtype)
    net.load_state_dict({key: record[key] for key in net.state_dict()})
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    result = {}
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = ddp(record[f"images.{step}.{rank}"])
        torch.nn.functional.cross_entropy(logits, record[f"labels.{step}.{rank}"]).backward()
        if step == 0:
            result = {f"grad.{key}": parameter.grad.clone() for key, parameter in net.named_parameters()}
        optimizer.step()
    if rank == 0:
        safetensors.torch.save_file({**result, **net.state_dict()}, f"{folder}/python")
    torch.distributed.destroy_process_group()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def largest_difference(ours, theirs):  # torch's max, unlike Python's, keeps a NaN
    ratios = [(ours[key].double() - value.double()).abs().max() / value.double().abs().max().clamp_min(1e-300) for key, value in theirs.items()]
    return torch.stack(ratios).max().item()


def compare(sample, dtype, folder):
    torch.manual_seed(5)
    record = dict(make_net().to(dtype).state_dict())
    for step in range(STEPS):
        for rank in range(RANKS):
            record[f"images.{step}.{rank}"] = torch.randn(SHARE, 3, 16, 16, dtype=dtype)
            record[f"labels.{step}.{rank}"] = torch.randint(10, (SHARE,))
    safetensors.torch.save_file(record, f"{folder}/in")
    name = str(dtype).removeprefix("torch.")
    subprocess.run([sample, f"{folder}/in", f"{folder}/ours", str(STEPS), name], check=True)
    torch.multiprocessing.spawn(python_rank, (free_port(), folder, dtype), RANKS)
    ours, theirs = safetensors.torch.load_file(f"{folder}/ours"), safetensors.torch.load_file(f"{folder}/python")
    check("the same tensors", set(ours) == set(theirs))
    gradients = largest_difference(ours, {key: value for key, value in theirs.items() if key.startswith("grad.")})
    everything = largest_difference(ours, theirs)
    print(f"ddp_test: {name}: first gradients {gradients:.1e}, all after {STEPS} steps {everything:.1e}")
    double = dtype == torch.float64
    check("equal first gradients", gradients <= (1e-11 if double else 1e-3))
    check("equal weights and statistics", not double or everything <= 1e-11)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for dtype in (torch.float64, torch.float32):
            compare(sys.argv[1], dtype, folder)


if __name__ == "__main__":
    main()
