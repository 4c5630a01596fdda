#!/usr/bin/env python3
"""Real shells complete what is typed: names of commands, options, their values, where they stand.
    completions.py FOLDER     of the completions that the build made
"""
import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/rig"))
import rooms  # noqa: E402,F401
from shells import bash_words, fish_words, zsh_words  # noqa: E402 (path first)

# What is typed behind the program's name; words that are offered; words that are not.
ROWS = {
    "controlctl": (
        ("rel", "reload", "restore add"),
        ("", "status reload add completion", "--fpr"),
        ("--socket /x rel", "reload", "status"),
        ("bypass ", "on off", "status"),
        ("completion ", "bash zsh fish", "status"),
        ("help bypa", "bypass", "status"),
        ("restore --format ", "auto ipset nft", "status --list"),
        ("restore --format=", "auto ipset nft", "status --list"),
        ("add --", "--list --ttl --comment --socket --json", "--format --once"),
        ("top --", "--once --interval", "--list"),
    ),
    "controld": (("--seccomp ", "refuse kill log off", "--config"), ("--", "--config --target --help", "--doctor")),
    "dataplane": (("--", "--config --doctor --now --help", "--target"),),
}


def main():
    wrong, asked = [], 0
    for shell, complete in (("bash", bash_words), ("zsh", zsh_words), ("fish", fish_words)):
        if not shutil.which(shell):
            print(f"skipped: package: {shell} is missing (scripts/setup test)")
            return 77
        for program, rows in ROWS.items():
            file = os.path.join(os.path.abspath(sys.argv[1]), f"_{program}" if shell == "zsh" else f"{program}.{shell}")
            given = complete(program, file, [typed for typed, _, _ in rows])
            for (typed, offered, others), words in zip(rows, given, strict=True):
                asked += 1
                words = {word.rpartition("=")[2] for word in words}  # fish: --format=auto
                if not set(offered.split()) <= words or set(others.split()) & words:
                    wrong.append(f"{shell}: `{program} {typed}` offers {' '.join(sorted(words)) or 'nothing'}")
    print("\n".join(wrong) or f"{asked} lines are completed as they should be")
    return 1 if wrong else 0


sys.exit(main())
