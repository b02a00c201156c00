"""SGD, Adam and AdamW against torch.optim over 20 steps with changing rates: usage optimizer_test.py OPTIMIZER_SAMPLE.

Against fused=True of the same torch: bit for bit, in fp32 and fp64, also across a save and load after 7 steps. Against the
loops of foreach=True: to 1e-12 of each tensor's largest in fp64 (rounding in another order), 1e-5 in fp32. Clipping as
torch.nn.utils.clip_grad_norm_: 1e-12 and 1e-5 as well, as the norm is summed in another order.
"""

import subprocess
import sys
import tempfile

import safetensors.torch
import torch

STEPS, SPLIT = 20, 7
SHAPES = {"conv.weight": (6, 3, 3, 3), "bn.weight": (6,), "bn.bias": (6,), "fc.weight": (10, 6), "fc.bias": (10,)}


def check(what, holds):
    if not holds:
        sys.exit(f"optimizer_test: {what} does not hold")


def make_optimizer(settings, parameters, **kind):
    name = settings["optim.optimizer"]
    decay = float(settings["optim.weight_decay"])
    no_decay = settings.get("optim.decay_norms") == "false"
    groups = [{"params": [p for p in parameters.values() if p.dim() > 1], "weight_decay": decay},
              {"params": [p for p in parameters.values() if p.dim() <= 1], "weight_decay": 0.0 if no_decay else decay}]
    if name == "sgd":
        momentum = float(settings["optim.momentum"])
        return torch.optim.SGD(groups, lr=1, momentum=momentum, nesterov=settings["optim.nesterov"] == "true", **kind)
    betas = (float(settings["optim.beta1"]), float(settings["optim.beta2"]))
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name](groups, lr=1, betas=betas, eps=float(settings["optim.eps"]), **kind)


def python_result(record, settings, max_norm, **kind):
    parameters = {name: torch.nn.Parameter(record[f"p.{name}"].clone()) for name in SHAPES}
    optimizer = make_optimizer(settings, parameters, **kind)
    for step in range(STEPS):
        for name, parameter in parameters.items():
            parameter.grad = record[f"g.{step}.{name}"].clone()
        if max_norm:
            torch.nn.utils.clip_grad_norm_(parameters.values(), max_norm)
        for group in optimizer.param_groups:
            group["lr"] = record["lr"][step].item()
        optimizer.step()
    result = {f"p.{name}": p.detach() for name, p in parameters.items()}
    names = {"momentum_buffer": "momentum", "exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}
    for name, parameter in parameters.items():
        for key, value in optimizer.state[parameter].items():
            if key in names and value is not None:
                result[f"{names[key]}.{name}"] = value
    return result


def difference(ours, theirs):
    """Largest difference over each tensor's largest value. torch's max, unlike Python's, keeps a NaN."""
    return torch.stack([(ours[k].double() - v.double()).abs().max() / v.double().abs().max().clamp_min(1e-300) for k, v in theirs.items()]).max().item()


def compare(sample, title, settings, dtype, max_norm, folder):
    torch.manual_seed(3)
    record = {f"p.{name}": torch.randn(shape, dtype=dtype) for name, shape in SHAPES.items()}
    for step in range(STEPS):
        record.update({f"g.{step}.{name}": torch.randn(shape, dtype=dtype) for name, shape in SHAPES.items()})
    record["lr"] = torch.rand(STEPS, dtype=torch.float64) * 0.1
    safetensors.torch.save_file(record, f"{folder}/in")
    words = [f"{key}={value}" for key, value in settings.items()]
    subprocess.run([sample, f"{folder}/in", f"{folder}/out", str(STEPS), str(SPLIT), str(max_norm), *words], check=True)
    with open(f"{folder}/out", "rb") as file:
        ours = safetensors.torch.load(file.read())
    check("the step is counted", ours["step"].item() == STEPS)
    fused = python_result(record, settings, max_norm, fused=True)
    loops = python_result(record, settings, max_norm, foreach=True)
    check("the same state", set(fused) <= set(ours))
    to_fused, to_loops = difference(ours, fused), difference(ours, loops)
    print(f"optimizer_test: {title}, {dtype}: to fused {to_fused:.1e}, to foreach {to_loops:.1e}")
    limit = 1e-12 if dtype == torch.float64 else 1e-5
    check("equal to the fused one", to_fused == 0 if not max_norm else to_fused <= limit)
    check("equal to the loops", to_loops <= limit)


def main():
    sgd = {"optim.optimizer": "sgd", "optim.momentum": "0.9", "optim.nesterov": "true", "optim.weight_decay": "5e-4"}
    adam = {"optim.optimizer": "adam", "optim.beta1": "0.9", "optim.beta2": "0.99", "optim.eps": "1e-8", "optim.weight_decay": "0.01"}
    cases = {
        "sgd, Nesterov": (sgd, 0),
        "sgd, momentum": ({**sgd, "optim.nesterov": "false"}, 0),
        "sgd, plain": ({**sgd, "optim.momentum": "0", "optim.nesterov": "false", "optim.weight_decay": "0"}, 0),
        "sgd, norms not decayed": ({**sgd, "optim.decay_norms": "false"}, 0),
        "sgd, clipped": (sgd, 0.5),
        "adam": (adam, 0),
        "adam, no decay": ({**adam, "optim.weight_decay": "0"}, 0),
        "adamw": ({**adam, "optim.optimizer": "adamw"}, 0),
        "adamw, norms not decayed": ({**adam, "optim.optimizer": "adamw", "optim.decay_norms": "false"}, 0),
        "adam, clipped": (adam, 0.5),
    }
    with tempfile.TemporaryDirectory() as folder:
        for title, (settings, max_norm) in cases.items():
            for dtype in (torch.float64, torch.float32):
                compare(sys.argv[1], title, settings, dtype, max_norm, folder)


if __name__ == "__main__":
    main()
