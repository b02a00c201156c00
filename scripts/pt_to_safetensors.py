#!/usr/bin/env python3
"""Converts weights that torch.save() wrote (.pt, .pth, .bin) into the safetensors file that mgtrain --init reads.

    scripts/pt_to_safetensors.py resnet18.pth resnet18.safetensors
    scripts/pt_to_safetensors.py checkpoint.pt best.safetensors --key model_ema

The file is read with torch.load(weights_only=True), which builds tensors and plain containers and runs nothing else; a
file that holds more is refused. Dictionaries under "state_dict", "model_state_dict" or "model" are unwrapped, what is not
a tensor is left out, and both are said. Needs Python with torch and safetensors: that of .venv, where this script
starts itself again if the Python it was started with lacks them (scripts/setup.sh test makes .venv).

Exits with 0 if the file is written, 1 if it is not, 2 for wrong usage.
"""

import argparse
import os
import pathlib
import sys
import tempfile

WRAPPERS = ("state_dict", "model_state_dict", "model")
MOST_NAMES = 10


def fail(text):
    sys.exit(f"pt_to_safetensors: error: {text}")


def say(text):
    print(f"pt_to_safetensors: {text}")


def listed(names):
    names = [name if len(name) <= 100 else name[:97] + "..." for name in map(str, names)]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ascii(", ".join(names[:MOST_NAMES]))[1:-1] + more


def import_torch():
    """torch and safetensors.torch; of .venv's Python in a new start of this program, where this one lacks them."""
    try:
        import safetensors.torch
        import torch

        return torch, safetensors.torch
    except ImportError as error:
        missing = error
    root = pathlib.Path(__file__).resolve().parent.parent
    python = root / ".venv" / "bin" / "python"
    if python.exists() and pathlib.Path(sys.prefix).resolve() != (root / ".venv").resolve():
        os.execv(python, [str(python), os.path.abspath(__file__), *sys.argv[1:]])
    fail(f"{missing}; this Python ({sys.executable}) lacks torch or safetensors: run scripts/setup.sh test, which "
         "installs both into .venv, or start this script with a Python that has them")


def load(torch, path):
    with open(path, "rb") as file:
        begin = file.read(9)
    if len(begin) == 9 and begin[8:] == b"{" and int.from_bytes(begin[:8], "little") < path.stat().st_size:
        fail(f"{path} looks like a safetensors file already: give it to mgtrain --init as it is")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of many kinds: UnpicklingError, RuntimeError, EOFError, KeyError, ...
        reason = str(error).strip().splitlines() or [type(error).__name__]
        fail(f"{path} cannot be read as tensors alone, and nothing else of it is run: {reason[0]}\n"
             "  Where you trust its maker: load it there, and save only model.state_dict().")


def is_state(torch, value):
    return isinstance(value, dict) and any(isinstance(tensor, torch.Tensor) for tensor in value.values())


def unwrap(torch, content, key):
    """The dictionary of tensors inside, and where it was: "checkpoint['state_dict']"."""
    place = ""
    if key is not None:
        if not isinstance(content, dict) or key not in content:
            there = listed(content) if isinstance(content, dict) else f"a {type(content).__name__}"
            fail(f"the file has no key {key!r}; it has: {there}")
        content, place = content[key], f"[{key!r}]"
    while isinstance(content, dict) and not isinstance(content, torch.Tensor):
        inner = [name for name in WRAPPERS if isinstance(content.get(name), dict)]
        if not inner:
            break
        others = [name for name in content if name != inner[0]]
        if others:
            say(f"left out beside {inner[0]!r}: {listed(others)}")
        content, place = content[inner[0]], f"{place}[{inner[0]!r}]"
    if not is_state(torch, content):
        keys = f"; its keys: {listed(content)}" if isinstance(content, dict) else ""
        fail(f"no dictionary of tensors in it, but a {type(content).__name__}{keys}. --key NAME names another one")
    return content, place


def tensors_of(torch, state):
    """Dense contiguous copies: tied weights become two tensors, as safetensors wants them."""
    tensors, dropped = {}, []
    for name, value in state.items():
        if isinstance(name, str) and isinstance(value, torch.Tensor):
            if value.layout != torch.strided or value.is_quantized:
                fail(f"{name} is sparse or quantized; mgtrain reads dense tensors of plain types")
            tensors[name] = value.detach().clone(memory_format=torch.contiguous_format)
        else:
            dropped.append(name)
    if dropped:
        say(f"{len(dropped)} entries are no tensors and are left out: {listed(dropped)}")
    return tensors


def write(save_file, tensors, path):
    """Whole or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        save_file(tensors, temporary, metadata={"format": "pt"})
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def main():
    description, _, rest = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(description=description, epilog=rest,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=pathlib.Path, help="the file that torch.save() wrote")
    parser.add_argument("output", type=pathlib.Path, nargs="?", help="default: INPUT with the suffix .safetensors")
    parser.add_argument("--key", help="take the dictionary under this key of the file")
    parser.add_argument("--force", action="store_true", help="replace OUTPUT if it exists")
    options = parser.parse_args()
    output = options.output or options.input.with_suffix(".safetensors")
    if not options.input.is_file():
        fail(f"{options.input}: no such file")
    if output.exists() and (output.is_dir() or output.samefile(options.input)):
        fail(f"{output} is {'a folder' if output.is_dir() else 'the input itself'}; give another OUTPUT")
    if output.exists() and not options.force:
        fail(f"{output} exists; --force replaces it")

    torch, safetensors_torch = import_torch()
    state, place = unwrap(torch, load(torch, options.input), options.key)
    tensors = tensors_of(torch, state)
    try:
        write(safetensors_torch.save_file, tensors, output)
    except Exception as error:  # OSError, and safetensors' own
        fail(f"{output} cannot be written: {error}")
    values = sum(tensor.numel() for tensor in tensors.values())
    say(f"{len(tensors)} tensors, {values} values, of {options.input}{place} written to {output}")


if __name__ == "__main__":
    main()
