"""Says what of the given requirements this Python environment lacks; prints nothing if it is whole.

Usage: .venv/bin/python scripts/venv_missing.py [--no-deps] REQUIREMENT...   (as pip takes them: name==version, name)

A line each: "missing NAME==VERSION" for what pip should install, "damaged NAME==VERSION" for a package whose shared
libraries are not there as they were installed (an interrupted install, a full disk). Follows the packages' own
requirements unless --no-deps. Faster than asking pip (0.3 s), and looks at the files.
"""
import csv
import os
import sys
from importlib import metadata

from pip._vendor.packaging.requirements import Requirement


def libraries_whole(distribution):
    record = distribution.read_text("RECORD")
    if record is None:
        return False
    for path, _, size in csv.reader(record.splitlines()):
        if ".so" not in path or not size:
            continue
        file = distribution.locate_file(path)
        if not os.path.isfile(file) or os.path.getsize(file) != int(size):
            return False
    return True


def check(text, extras, follow, seen, lines):
    requirement = Requirement(text)
    if requirement.marker and not any(requirement.marker.evaluate({"extra": e}) for e in extras or [""]):
        return
    key = (requirement.name.lower().replace("_", "-"), tuple(sorted(requirement.extras)))
    if key in seen:
        return
    seen.add(key)
    plain = f"{requirement.name}{requirement.specifier}"
    try:
        distribution = metadata.distribution(requirement.name)
    except metadata.PackageNotFoundError:
        lines.append(f"missing {plain}")
        return
    if not requirement.specifier.contains(distribution.version, prereleases=True):
        lines.append(f"missing {plain}")
        return
    if not libraries_whole(distribution):
        lines.append(f"damaged {requirement.name}=={distribution.version}")
    if follow:
        for needed in distribution.requires or []:
            check(needed, requirement.extras, follow, seen, lines)


def main(arguments):
    follow = "--no-deps" not in arguments
    lines = []
    seen = set()
    for text in arguments:
        if text != "--no-deps":
            check(text, set(), follow, seen, lines)
    print("\n".join(dict.fromkeys(lines)), end="\n" if lines else "")


main(sys.argv[1:])
