#!/usr/bin/env python3
"""Writes the valid inputs that each fuzz target starts from: tests/fuzz/corpus/NAME/seed-*. Same bytes every time."""

import gzip
import json
import pathlib
import struct
import zlib

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent


def put(target, name, content):
    folder = here / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{name}").write_bytes(content if isinstance(content, bytes) else content.encode())


def idx(shape, values):
    return struct.pack(f">{1 + len(shape)}I", 0x800 + len(shape), *shape) + bytes(values)


def packed(data):
    return gzip.compress(data, 9, mtime=0)


images, labels = idx([3, 2, 4], range(24)), idx([5], [0, 1, 2, 1, 0])
for name, data in {"images": images, "labels": labels}.items():
    put("idx", name, data)
    put("idx", f"{name}.gz", packed(data))
put("gzip", "raw", b"raw bytes, no gzip")
put("gzip", "one", packed(bytes(range(200)) * 20))
put("gzip", "two", packed(b"first member") + packed(b"second member"))
put("gzip", "stored", gzip.compress(b"stored, not packed", 0, mtime=0))
put("gzip", "zeros", packed(bytes(300_000)))
put("gzip", "lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")

put("cifar", "ten", bytes([0, 3]) + bytes(range(256)) * 12)
put("cifar", "fine", bytes([1, 19, 99]) + bytes(range(256)) * 12)
put("cifar", "coarse", bytes([2, 4, 50]) + bytes(3072))
put("cifar", "names", bytes([129]) + b"".join(b"class %d\r\n" % i for i in range(10)))
put("cifar", "foreign", bytes([0]) + b"<!DOCTYPE html><html>")


def png(width, height, depth, color, rows, interlace=0, extra=(), level=9):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(*part) for part in extra)
            + chunk(b"IDAT", zlib.compress(rows, level)) + chunk(b"IEND", b""))


put("png", "grey8", png(3, 2, 8, 0, b"\0\1\2\3" b"\1\4\5\6"))
put("png", "grey1", png(9, 1, 1, 0, b"\0\xaa\x80"))
put("png", "grey16", png(2, 1, 16, 0, b"\0\1\2\3\4"))
put("png", "rgb8", png(2, 2, 8, 2, b"\2" + bytes(range(6)) + b"\4" + bytes(range(6))))
put("png", "rgba16", png(1, 1, 16, 6, b"\0" + bytes(range(8))))
put("png", "grey-alpha", png(2, 1, 8, 4, b"\0\1\2\3\4"))
put("png", "palette", png(4, 1, 2, 3, b"\0\x1b", extra=[(b"PLTE", bytes(range(12))), (b"tRNS", b"\0\x80")]))
put("png", "interlaced", png(3, 3, 8, 0, b"\0\1" b"\0\2" b"\0\3\4" b"\0\5" b"\0\6" b"\0\7\x08\x09", interlace=1))
put("png", "text", png(1, 1, 8, 0, b"\0\1", extra=[
    (b"gAMA", struct.pack(">I", 45455)), (b"tEXt", b"Title\0x"), (b"zTXt", b"T\0\0" + zlib.compress(b"packed text")),
    (b"iTXt", b"T\0\1\0en\0t\0" + zlib.compress(b"text")), (b"iCCP", b"p\0\0" + zlib.compress(bytes(200)))]))


put("png", "stored", png(5, 4, 8, 2, bytes([0, *range(15), 1, *range(15), 2, *range(15), 3, *range(15)]), level=0))
put("png", "stored-palette", png(6, 3, 4, 3, b"\0abc\4abc\3abc", interlace=1, level=0, extra=[(b"PLTE", bytes(range(48)))]))


def safetensors(tensors, metadata=None):
    header, offset = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    sizes = {"F32": 4, "I64": 8, "U8": 1, "BF16": 2}
    for name, dtype, shape in tensors:
        count = 1
        for size in shape:
            count *= size
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + count * sizes[dtype]]}
        offset += count * sizes[dtype]
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text.encode() + bytes(offset), text


network = [("conv1.weight", "F32", [4, 3, 3, 3]), ("bn1.num_batches_tracked", "I64", []),
           ("fc.weight", "F32", [10, 4]), ("fc.bias", "F32", [10])]
for name, tensors, metadata in (
        ("network", network, {"format": "pt"}),
        ("prefixed", [("module._orig_mod." + name, *rest) for name, *rest in network], None),
        ("narrow", [("fc.weight", "BF16", [3, 4]), ("fc.bias", "BF16", [3]), ("empty", "U8", [0, 7])], None),
        ("nothing", [], None)):
    whole, text = safetensors(tensors, metadata)
    put("safetensors", name, whole)
    put("safetensors", f"{name}.json", text)
put("safetensors", "zip", b"PK\3\4" + bytes(26) + b"archive/data.pkl")
put("safetensors", "pickle", b"\x80\2cposix\nsystem\nX\4\0\0\0true\x85R.")

entry = '"%s": {"bytes": %d, "xxh3_128": "99aa06d3014798d86001c324468d497f"}'
names = ["model.safetensors", "run.json", "state.safetensors"]
put("manifest", "whole", '{\n"format": "mgtrain checkpoint 1",\n"files": {\n'
    + ",\n".join(entry % (name, 40 * i) for i, name in enumerate(names)) + "\n}\n}\n")
put("manifest", "one", '{\n"format": "mgtrain checkpoint 1",\n"files": {\n' + entry % ("a-b_c.d", 2**64 - 1) + "\n}\n}\n")
put("manifest", "none", '{\n"format": "mgtrain checkpoint 1",\n"files": {\n}\n}\n')

record = {
    "schema": 1,
    "state": {"step": 10, "epoch": 2, "sample_offset": 640, "samples_seen": 640, "best_value": 0.30000000000000004,
              "best_step": 7, "evals_without_improvement": 1, "last_eval_step": -1, "loss_sum_since_report": "nan",
              "top1_since_report": 41, "samples_since_report": 64, "elapsed_seconds": 12.5, "finished": False},
    "total_steps": 790, "steps_per_epoch": 79,
    "model": {"name": "resnet18", "width": 8, "stem": "cifar", "classes": 3, "dtype": "float32"},
    "class_names": ["shoe", "coat \u00e9", "bag"], "dataset_fingerprint": "0123abcd",
    "dataset": {"channels": 1, "height": 28, "width": 28, "mean": [0.28], "std": [0.35]},
    "file_lengths": {"metrics.jsonl": 12345, "log.txt": 0}, "mgtrain_version": "0.1.0", "torch_version": "2.11.0",
    "config_toml": "[train]\nbatch = 64 # \"quoted\"\n"}
put("run_record", "whole", json.dumps(record, indent=2) + "\n")
record["state"].update(best_value=None, loss_sum_since_report="-inf", elapsed_seconds="inf", finished=True)
record.update(model="not an object", dataset="{\"a\": 1}", class_names=[], file_lengths={})
put("run_record", "texts", json.dumps(record, separators=(",", ":")))

for file in sorted((root / "configs").glob("*.toml")):
    put("config", file.name, file.read_bytes())
put("config", "forms", '\ufeff[optim]\r\nlr = 1e-2 # note\r\nbetas = [0.9, 0.99]\r\nname = \'adamw\'\r\n[train]\r\nbatch = 0x40\r\n'
    'devices.gpus = "0,1"\nx = { a = 1, "b.c" = [1, 2] }\nd = 2024-05-01T07:32:00Z\n[[many]]\ny = """\ntwo\nlines"""\n')
put("config", "faults", "[optim]\nlr = 0,1\nlr = 0.1\n[optim]\nbatch = yes\n= 3\n[train\nq = [1,\n")
put("config", "lines", "--set optim.lr=0.1\n--set data.classes=[\"a\", \"b\"]\nMGTRAIN_OPTIM__LR=nan\noptim.lr=1e400\n"
    "checkpoint.every=30m\nMGTRAIN_NO__KEY=1\ntrain.batch=64\n")

for name, kind, text in (("auto", 2, "auto\n"), ("list", 4, "3,1,0\n1"), ("range", 4, " 0-3, \n2,"), ("cpu", 0, "cpu:4\n"),
                         ("uuid", 3, "GPU-aaaa,GPU-bbbb\nGPU-b"), ("mig", 34, "MIG-aaaaaaaa\n"), ("sim", 17, "sim:3\n0"),
                         ("count", 132, "2\n"), ("all", 66, "all\n"), ("long", 4, "0-1024,\n")):
    put("devices", name, bytes([kind]) + text.encode())

launches = {
    "torchrun": "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nGROUP_WORLD_SIZE=2\nMASTER_ADDR=node1\nMASTER_PORT=29500\n"
                "TORCHELASTIC_USE_AGENT_STORE=True\nTORCHELASTIC_RESTART_COUNT=0\nTORCHELASTIC_MAX_RESTARTS=3\nTORCHELASTIC_RUN_ID=none\n",
    "slurm": "SLURM_STEP_ID=0\nSLURM_STEP_NUM_TASKS=8\nSLURM_PROCID=5\nSLURM_LOCALID=1\nSLURM_NODEID=1\nSLURM_JOB_ID=77\n"
             "SLURM_STEP_TASKS_PER_NODE=4(x2)\nSLURM_STEP_NODELIST=gpu[01-02]\n",
    "openmpi": "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=1\nOMPI_COMM_WORLD_LOCAL_SIZE=2\n",
    "pmi": "PMI_RANK=1\nPMI_SIZE=2\nMPI_LOCALRANKID=0\nMPI_LOCALNRANKS=1\nMASTER_ADDR=a\n",
    "flags": "--rdzv=[::1]:29500\n--rank=1\n--world=2\n",
    "hosts": "r[1-2]n[01-04,7]-x,login1", "counts": "4(x2),3"}
for name, text in launches.items():
    put("launch_environment", name, text)

put("metrics", "run", "\n".join(json.dumps(event) for event in (
    {"event": "start", "version": "0.1.0", "total_steps": 790}, {"event": "step", "step": 50, "loss": 2.1},
    {"event": "eval", "step": 79, "epoch": 1, "num_samples": 100, "loss": None, "top1": 0.5, "top5": 0.9, "seconds": 1.5,
     "is_best": True, "class_accuracy": [0.5, None]}, {"event": "end", "exit_code": 0})) + "\n")
put("metrics", "types", '{"event": "eval", "step": "1", "epoch": 1e99, "is_best": 2, "class_accuracy": {}}\n[]\n{"event": ["start"]}\n')
