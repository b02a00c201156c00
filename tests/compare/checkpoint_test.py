"""Python's safetensors and torchvision read what mgtrain saved: usage checkpoint_test.py CHECKPOINT_SAMPLE."""

import json
import os
import subprocess
import sys
import tempfile

import safetensors
import safetensors.torch
import torch
import torchvision


def check(what, holds):
    if not holds:
        sys.exit(f"checkpoint_test: {what} does not hold")


def known_values(k, shape):
    index = torch.arange(torch.Size(shape).numel()) % 1000 + k
    return (index.float() / 64).reshape(shape)


def check_model(path):
    tensors = safetensors.torch.load_file(path)
    model = torchvision.models.resnet18()
    expected = model.state_dict()
    check("the same names as torchvision's", set(tensors) == set(expected))
    # Values are numbered in file order, which is torchvision's order of modules.
    with safetensors.safe_open(path, framework="pt") as file:
        check("metadata says pt", file.metadata() == {"format": "pt"})
    for k, name in enumerate(expected):
        tensor = tensors[name]
        check(f"dtype of {name}", tensor.dtype == expected[name].dtype)
        check(f"shape of {name}", tensor.shape == expected[name].shape)
        value = torch.tensor(k) if tensor.dtype == torch.int64 else known_values(k, tensor.shape)
        check(f"values of {name}", torch.equal(tensor, value))
    model.load_state_dict(tensors, strict=True)
    check("weights arrive in the module", torch.equal(model.fc.weight, tensors["fc.weight"]))


def check_state(path):
    state = safetensors.torch.load_file(path)
    check("optimizer names", set(state) == {"optimizer.momentum.fc.weight", "optimizer.step"})
    check("momentum", bool((state["optimizer.momentum.fc.weight"] == 0.5).all()))
    check("step", torch.equal(state["optimizer.step"], torch.tensor([7.0])))


def check_manifest(folder):
    with open(os.path.join(folder, "manifest.json"), newline="") as file:
        body = file.read()[:-33]  # without the last line, the checksum
    manifest = json.loads(body)
    names = set(os.listdir(folder)) - {"manifest.json"}
    check("the manifest names every file", set(manifest["files"]) == names)
    for name, entry in manifest["files"].items():
        check(f"size of {name}", os.path.getsize(os.path.join(folder, name)) == entry["bytes"])


def main():
    with tempfile.TemporaryDirectory() as run:
        subprocess.run([sys.argv[1], run], check=True)
        folder = os.path.join(run, "checkpoints", "step-00000001")
        check_model(os.path.join(folder, "model.safetensors"))
        check_state(os.path.join(folder, "state.safetensors"))
        check_manifest(folder)
        with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
            check("run.json is JSON", json.load(file)["state"]["step"] == 1)
    print("checkpoint_test: torchvision's resnet18 loads mgtrain's model.safetensors strictly, all values equal")


if __name__ == "__main__":
    main()
