"""Python's tensorboard reads what mgtrain's writer wrote: usage tensorboard_read_back.py TENSORBOARD_SAMPLE."""

import logging
import os
import struct
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def same(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: tensorboard reads {got}, written was {expected}")


def main():
    logged = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())
    logging.getLogger("tensorboard").addHandler(handler)

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        names = os.listdir(folder)
        same("number of event files", len(names), 1)

        # Record by record, with tensorboard's own CRC checks: a damaged record raises, the end of the file is OutOfRange.
        reader = PyRecordReader_New(os.path.join(folder, names[0]))
        num_records = 0
        try:
            while True:
                reader.GetNext()
                num_records += 1
        except Exception as end:  # noqa: BLE001, the class differs between versions
            if "OutOfRange" not in type(end).__name__:
                raise
        same("records: version, 5 steps, 1 evaluation", num_records, 7)

        events = EventAccumulator(folder, purge_orphaned_data=True)
        events.Reload()
        steps = [1, 2, 3, 4, 5]
        expected = {
            "train/loss": [(step, as_float32(2.25 / step)) for step in steps],
            "train/top1": [(step, 0.5) for step in steps],
            "train/lr": [(step, as_float32(0.1)) for step in steps],
            "throughput/images_per_second": [(step, as_float32(1234.4)) for step in steps],
            "grad_norm": [(1, 0.5), (2, 1.0)],  # the resumed part had none
            "val/loss": [(2**33, 0.75)],
            "val/top1": [(2**33, as_float32(0.7))],
            "val/top5": [(2**33, 1.0)],
        }
        same("tags", sorted(events.Tags()["scalars"]), sorted(expected))
        for tag, values in expected.items():
            same(tag, [(event.step, event.value) for event in events.Scalars(tag)], values)
        same("file version", events.file_version, 2.0)
        same("complaints", logged, [])


main()
