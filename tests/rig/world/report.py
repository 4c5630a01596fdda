"""The command line of a program that tries what may go wrong: what it found is printed as JSON. Standard library only."""

import argparse
import json

from session import Session


def report(run, doc, **options):
    """Prints what run(build, ..., seed) returns: --build, --seed and an option for each of `options`, a number or a flag, with its
    default. A system call that controld should not need ends it."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    for name, default in {**options, "seed": 1}.items():
        kind = {"action": "store_true"} if default is False else {"type": int, "default": default}
        parser.add_argument(f"--{name}", **kind)
    Session.seccomp = "kill"
    print(json.dumps(run(**vars(parser.parse_args()))))
