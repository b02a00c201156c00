"""Seeded faults that must not survive: each changes one line of src/, is linked into a copy of the test program of the
simulated devices, and must be caught by the test named beside it.

    mutants.py BUILD_FOLDER [NAME...]      (a Ninja build of the target mgtrain_sim_tests)

Nothing in the source tree or in the build changes. Exit 0: each mutant was killed by its test.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from typing import NamedTuple

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"
SECONDS = 300  # a mutant that hangs counts as killed: its test cannot pass


class Mutant(NamedTuple):
    name: str
    file: str
    line: str  # as it stands in the file, once
    becomes: str
    killer: str  # the name of a test


MUTANTS = [
    Mutant("replica not moved", "parallel/replicated_module.cpp",
           "      flat_(*model_, primary.flat_, device_,", "      flat_(*model_, primary.flat_, primary.device_,",
           "two simulated devices leave the bits of the two chunks run in turn on the CPU"),
    Mutant("images not moved", "parallel/portable_forward.cpp",
           "chunks[i] = chunks[i].to(used[i], /*non_blocking=*/true);", "chunks[i] = chunks[i].clone();",
           "two simulated devices leave the bits of the two chunks run in turn on the CPU"),
    Mutant("target not moved", "parallel/local_strategy.cpp",
           "    const at::Tensor labels = batch.labels.to(primary(), /*non_blocking=*/true);",
           "    const at::Tensor labels = batch.labels;",
           "one simulated device leaves the bits of the CPU: weights, statistics, optimizer, logits"),
    Mutant("gather missing", "parallel/portable_forward.cpp",
           "  for (at::Tensor& part : logits) part = part.to(used.front());", "",
           "two simulated devices leave the bits of the two chunks run in turn on the CPU"),
    Mutant("factory without an index", "parallel/flat_parameters.cpp",
           "torch::TensorOptions().dtype(torch::kUInt8).device(device));",
           "torch::TensorOptions().dtype(torch::kUInt8).device(device.type()));",
           "labels and sums are on the primary device"),
    Mutant("factory without a device", "optim/optimizer.cpp",
           "impl_->step = at::zeros({1}, impl_->parameters.front().second.options().dtype(at::kFloat).requires_grad(false));",
           "impl_->step = at::zeros({1});",
           "one simulated device leaves the bits of the CPU: weights, statistics, optimizer, logits"),
    Mutant("buffers not copied", "parallel/flat_parameters.cpp",
           "  for (const auto& item : module.named_buffers()) append(item.key(), Kind::kBuffer, item.value());\n"
           "  changing_bytes_ = total_bytes_;",
           "  changing_bytes_ = total_bytes_;\n"
           "  for (const auto& item : module.named_buffers()) append(item.key(), Kind::kBuffer, item.value());",
           "evaluation on two devices after a step uses the statistics of that step on both"),
    Mutant("replicas stale after a step", "parallel/local_strategy.cpp",
           "  weights_changed();  // statistics have, and the optimizer is about to", "",
           "evaluation on two devices after a step uses the statistics of that step on both"),
    Mutant("replicas refreshed at every use", "parallel/replicated_module.cpp",
           "  if (generation_ == primary.generation_) return;", "",
           "micro-batches refresh the replicas once a micro-batch, and an evaluation once in all"),
    Mutant("guard missing", "parallel/replicated_module.cpp",
           "    if (pass.streams[position_]) stream_and_device.reset_stream(*pass.streams[position_]);", "",
           "each replica's forward has its own device as the current one"),
    Mutant("forward passes in turn", "parallel/data_parallel.cpp",
           "    : LocalStrategy(model, options, static_cast<int>(options.devices.size())),",
           "    : LocalStrategy(model, options, 1),",
           "two devices run their forward passes on different threads"),
    Mutant("host read in a step", "engine/device_scalars.cpp",
           "  const at::Tensor together = at::stack(numbers);",
           "  for (at::Tensor& number : numbers) number = at::full_like(number, number.item<double>());\n"
           "  const at::Tensor together = at::stack(numbers);",
           "a step on one device copies images and labels in and two numbers out, and waits once for them"),
    Mutant("norms differentiated by a rank's own samples", "comm/sync_batch_norm.cpp",
           '      context->saved_data["group"].toCustomClass<c10d::ProcessGroup>()->allreduce(all)->wait();\n', "",
           "ranks on simulated devices that normalise together leave one device's weights and statistics, in fp64"),
    Mutant("statistics of an empty rank on the host", "comm/sync_batch_norm.cpp",
           "at::zeros({2 * channels + 1}, x_NCHW.options().dtype(at::kDouble));",
           "at::zeros({2 * channels + 1}, at::kDouble);",
           "ranks on simulated devices leave the bits of ranks on the CPU"),
    Mutant("global count read on the host", "comm/sync_batch_norm.cpp", "    count = all.count;",
           "    count = at::full({1}, all.count.item<double>(), all.count.options());",
           "a step of ranks that normalise together has two collectives a layer more, on each rank's own device, and "
           "waits for none"),
    Mutant("failed device not named", "parallel/device_errors.cpp",
           "    work.device = named->first;", "",
           "a fault anywhere in a step of any device names it, and the next step leaves the right gradients"),
]


def mutated_object(mutant: Mutant, build: pathlib.Path, scratch: pathlib.Path) -> pathlib.Path:
    original = SOURCE / mutant.file
    text = original.read_text(encoding="utf-8")
    if text.count(mutant.line) != 1:
        sys.exit(f"{mutant.name}: {mutant.file} has its line {text.count(mutant.line)} times instead of once; "
                 "bring MUTANTS up to date with the source")
    changed = scratch / original.name
    changed.write_text(text.replace(mutant.line, mutant.becomes), encoding="utf-8")
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    entry = next(one for one in entries if pathlib.Path(one["file"]) == original and "mgtrain_core.dir" in one["command"])
    command = shlex.split(entry["command"])
    command[command.index("-o") + 1] = str(scratch / "mutant.o")
    command[command.index("-c") + 1] = str(changed)
    for option in ("-MF", "-MT"):
        if option in command:
            del command[command.index(option):command.index(option) + 2]
    # A mutant may leave a name unused.
    subprocess.run([word for word in command if word not in ("-MD", "-Werror")], cwd=entry["directory"], check=True)
    return scratch / "mutant.o"


def linked(build: pathlib.Path, scratch: pathlib.Path, mutant_object: pathlib.Path) -> pathlib.Path:
    """The test program with the mutant in front of the library that holds the original: the linker takes the first."""
    commands = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "mgtrain_sim_tests"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.splitlines()
    link = next(line for line in reversed(commands) if "-o tests/simulated/mgtrain_sim_tests" in line)
    program = scratch / "mgtrain_sim_tests"
    link = link.replace("-o tests/simulated/mgtrain_sim_tests", f"-o {shlex.quote(str(program))}", 1)
    link = re.sub(r"(\S+\.a)", f"{shlex.quote(str(mutant_object))} \\1", link, count=1)
    subprocess.run(link, shell=True, cwd=build, check=True)
    return program


def outcome(mutant: Mutant, build: pathlib.Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        program = linked(build, scratch, mutated_object(mutant, build, scratch))
        try:
            done = subprocess.run([program, mutant.killer.replace(",", "\\,")], cwd=SOURCE.parent, text=True, timeout=SECONDS,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", check=False)
        except subprocess.TimeoutExpired:
            return "killed (hung)"
    if "No test cases matched" in done.stdout:
        sys.exit(f"{mutant.name}: there is no test \"{mutant.killer}\"")
    if done.returncode == 0:
        return "SURVIVED"
    return "killed" if "FAILED" in done.stdout else f"killed (exit {done.returncode})"


def main() -> int:
    build, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(lambda mutant: outcome(mutant, build), chosen))
    for mutant, result in zip(chosen, outcomes):
        print(f"{result:16} {mutant.name:34} {mutant.file}: {mutant.killer}")
    return int(not chosen or "SURVIVED" in outcomes)


if __name__ == "__main__":
    sys.exit(main())
