"""ResNet 18 and 50 against torchvision's in the same torch: usage resnet_test.py RESNET_SAMPLE.

With the same weights and images: loss, logits (training and evaluation), every gradient and the running statistics after
the step. Differences are relative to each tensor's largest value. fp64: 1e-10. fp32: loss, logits and statistics 1e-5,
gradients 1e-3. Both sides must run on the same number of threads, as they do by default: then they were equal bit for
bit. With one thread against two, fp32 parted by 2e-5 and its gradients by 5e-2 (ResNet50, ImageNet stem, where the last
norms see 16 values a channel). Initial weights are compared by distribution.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import torchvision

BATCH = 4


def check(what, holds):
    if not holds:
        sys.exit(f"resnet_test: {what} does not hold")


def torchvision_net(name, stem, classes):
    net = getattr(torchvision.models, name)(num_classes=classes)
    if stem == "cifar":
        net.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net.maxpool = torch.nn.Identity()
    return net


def names_as_written(path):
    data = pathlib.Path(path).read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    header.pop("__metadata__", None)
    return sorted(header, key=lambda name: header[name]["data_offsets"])


def largest_difference(ours, theirs):  # torch's max, unlike Python's, keeps a NaN
    return torch.tensor([difference(ours[key], value) for key, value in theirs.items()]).max().item()


def difference(ours, theirs):
    return ((ours.double() - theirs.double()).abs().max() / theirs.double().abs().max().clamp_min(1e-300)).item()


def compare_step(sample, name, stem, size, classes, dtype, layout, folder):
    torch.manual_seed(size)
    net = torchvision_net(name, stem, classes).to(dtype)
    with torch.no_grad():  # statistics and norms that a fresh net has not
        for key, value in net.state_dict().items():
            if key.endswith(("running_mean", "bias")):
                value.normal_(0, 0.1)
            if key.endswith("running_var"):
                value.uniform_(0.5, 2)
    images, labels = torch.randn(BATCH, 3, size, size, dtype=dtype), torch.randint(classes, (BATCH,))
    state = {key: value.clone() for key, value in net.state_dict().items()}
    safetensors.torch.save_file({**state, "images": images, "labels": labels}, f"{folder}/in")
    command = [sample, name, stem, str(size), str(classes), "float64" if dtype == torch.float64 else "float32", layout]
    subprocess.run([*command, f"{folder}/in", f"{folder}/out"], check=True)
    ours = safetensors.torch.load_file(f"{folder}/out")

    layout_of = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    net, images = net.to(memory_format=layout_of), images.contiguous(memory_format=layout_of)
    net.eval()
    with torch.no_grad():
        eval_logits = net(images)
    net.train()
    logits = net(images)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    gradients = {f"grad.{key}": parameter.grad for key, parameter in net.named_parameters()}
    after = {f"after.{key}": value for key, value in net.named_buffers()}
    values = {"eval_logits": eval_logits, "logits": logits.detach(), "loss": loss.detach().reshape(1), **after}
    check("the same tensors", set(ours) == set(values) | set(gradients))
    largest_value = largest_difference(ours, values)
    largest_gradient = largest_difference(ours, gradients)
    print(f"resnet_test: {name}, {stem} stem, {dtype}, {layout}: values {largest_value:.1e}, gradients {largest_gradient:.1e}")
    double = dtype == torch.float64
    check("equal loss, logits and statistics", largest_value <= (1e-10 if double else 1e-5))
    check("equal gradients", largest_gradient <= (1e-10 if double else 1e-3))


def initial_weights(sample, name, seed, zero, folder):
    command = [sample, name, "imagenet", "64", "1000", "init", str(seed), "zero" if zero else "one", f"{folder}/init{seed}"]
    subprocess.run(command, check=True)
    return safetensors.torch.load_file(f"{folder}/init{seed}")


def compare_initial_weights(sample, name, folder):
    net = getattr(torchvision.models, name)(zero_init_residual=True)
    theirs, ours = net.state_dict(), initial_weights(sample, name, 1, True, folder)
    order = [name for name, _ in net.named_parameters()] + [name for name, _ in net.named_buffers()]
    check("torchvision's names in its order", names_as_written(f"{folder}/init1") == order)
    check("no name of torchvision's lacks", set(order) == set(theirs))
    net.load_state_dict(ours, strict=True)
    for key, value in theirs.items():
        mine = ours[key]
        check(f"shape and type of {key}", mine.shape == value.shape and mine.dtype == value.dtype)
        if mine.dim() == 4:  # normal: mean 0, the same deviation; 6 sigma of the estimates
            sigma = math.sqrt(2 / (mine.shape[0] * mine.shape[2] * mine.shape[3]))
            check(f"mean of {key}", abs(mine.mean().item()) <= 6 * sigma / math.sqrt(mine.numel()))
            for deviation in (mine.std().item(), value.std().item()):
                check(f"deviation of {key}", abs(deviation / sigma - 1) <= 6 / math.sqrt(2 * mine.numel()))
        elif key.startswith("fc."):  # uniform within 1 / sqrt(inputs)
            bound = 1 / math.sqrt(net.fc.in_features)
            check(f"bounds of {key}", mine.abs().max().item() <= bound and mine.abs().max().item() >= 0.98 * bound)
            check(f"mean of {key}", abs(mine.mean().item()) <= 6 * bound / math.sqrt(3 * mine.numel()))
        else:  # norms: ones, zeros, and zero scales where a block ends
            check(f"values of {key}", torch.equal(mine, value))
    other = initial_weights(sample, name, 2, False, folder)
    check("another seed gives other weights", not torch.equal(other["conv1.weight"], ours["conv1.weight"]))
    check("no zero scale unless asked for", all((other[k] == 1).all() for k in other if "bn" in k and k.endswith("weight")))


def main():
    sample = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        for dtype in (torch.float64, torch.float32):
            for layout in ("nchw", "nhwc"):
                compare_step(sample, "resnet18", "imagenet", 64, 1000, dtype, layout, folder)
                compare_step(sample, "resnet18", "cifar", 32, 10, dtype, layout, folder)
            compare_step(sample, "resnet50", "imagenet", 64, 1000, dtype, "nchw", folder)
            compare_step(sample, "resnet50", "cifar", 32, 10, dtype, "nhwc", folder)
        compare_initial_weights(sample, "resnet18", folder)
        compare_initial_weights(sample, "resnet50", folder)


if __name__ == "__main__":
    main()
