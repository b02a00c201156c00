"""Writes lr_schedules.json: learning rates of torch.optim.lr_scheduler for tests/optim/lr_schedule_test.cpp.

  .venv/bin/python tests/goldens/make_lr_schedules.py

Rates are the schedulers' closed forms where they have one; the recursive forms are checked against them here. A
warm-up is the linear ramp rate * (step + 1) / warmup, after which the scheduler starts at its step 0.
"""
import json, pathlib

import torch
from torch.optim import lr_scheduler


def rates(lr, make, count):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr)
    scheduler = make(optimizer)
    out = []
    for step in range(count):
        recursive = optimizer.param_groups[0]["lr"]
        closed = scheduler._get_closed_form_lr()[0] if hasattr(scheduler, "_get_closed_form_lr") else recursive
        assert abs(closed - recursive) <= 1e-9 * lr, (step, closed, recursive)
        out.append(closed)
        optimizer.step()
        if step + 1 < count:
            scheduler.step()
    return out


def case(name, lr, steps_per_epoch, total, warmup, schedule, make, **config):
    scheduled = rates(lr, make, total - warmup)
    ramp = [scheduled[0] * (step + 1) / warmup for step in range(warmup)]
    return dict(name=name, lr=lr, steps_per_epoch=steps_per_epoch, total=total, warmup=warmup, schedule=schedule,
                config=config, rates=ramp + scheduled)


def cosine(t_max, eta_min=0.0):
    return lambda o: lr_scheduler.CosineAnnealingLR(o, t_max, eta_min)


def one_cycle(lr, total, **kw):
    return lambda o: lr_scheduler.OneCycleLR(o, lr, total_steps=total, cycle_momentum=False, **kw)


cases = [
    case("constant", 0.1, 5, 7, 0, "constant", lambda o: lr_scheduler.ConstantLR(o, factor=1.0)),
    case("constant after a warm-up", 0.1, 5, 12, 5, "constant", lambda o: lr_scheduler.ConstantLR(o, factor=1.0)),
    case("step of 3 epochs", 0.1, 4, 60, 0, "step", lambda o: lr_scheduler.StepLR(o, 12, 0.1),
         step_size="3e", gamma=0.1),
    case("step of 7 updates after a warm-up", 0.3, 4, 50, 6, "step", lambda o: lr_scheduler.StepLR(o, 7, 0.5),
         step_size="7", gamma=0.5),
    case("multistep", 0.1, 3, 40, 0, "multistep", lambda o: lr_scheduler.MultiStepLR(o, [6, 15, 30], 0.2),
         milestones=["2e", "15", "10e"], gamma=0.2),
    case("multistep after a warm-up", 0.1, 3, 40, 4, "multistep",
         lambda o: lr_scheduler.MultiStepLR(o, [9, 9, 20], 0.1), milestones=["9", "3e", "20"], gamma=0.1),
    case("cosine", 0.1, 10, 100, 0, "cosine", cosine(100)),
    case("cosine with a floor after a warm-up", 0.4, 10, 90, 15, "cosine", cosine(75, 0.004), min_lr=0.004),
    case("one-cycle", 0.1, 10, 100, 0, "onecycle", one_cycle(0.1, 100)),
    case("one-cycle of odd length", 0.05, 10, 37, 0, "onecycle",
         one_cycle(0.05, 37, pct_start=0.25, div_factor=10, final_div_factor=100),
         onecycle_start=10, onecycle_end=100, onecycle_rise=0.25),
    case("one-cycle that rises for less than an update", 0.05, 10, 20, 0, "onecycle",
         one_cycle(0.05, 20, pct_start=0.02), onecycle_rise=0.02),
    case("one-cycle after a warm-up", 0.2, 10, 60, 10, "onecycle", one_cycle(0.2, 50)),
]
path = pathlib.Path(__file__).with_name("lr_schedules.json")
with open(path, "w") as file:
    file.write('{"torch": "%s", "cases": [\n' % torch.__version__)
    file.write(",\n".join(json.dumps(one) for one in cases))
    file.write("\n]}\n")
print(f"wrote {path.name}: {len(cases)} schedules")
