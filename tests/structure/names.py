#!/usr/bin/env python3
"""Programs name only what their modules have: `module.name` and `from module import name`, of the modules of tests/rig/rooms.py and of
tests. Programs of figures are run by hand, so nothing else would notice a name that was moved.
    names.py     exit 1: something is named that is not there
"""
import ast
import glob
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def programs():
    """{path: its tree} of Python."""
    trees = {}
    for folder in ("scripts", "tests"):
        for path in glob.glob(os.path.join(ROOT, folder, "**/*"), recursive=True):
            if not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                text = file.read()
            if path.endswith(".py") or text.startswith(b"#!/usr/bin/env python3"):
                trees[path] = ast.parse(text, path)
    return trees


def names_of(tree):
    """What a module has, wherever it gets it."""
    names = {"__file__", "__doc__", "__name__"}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def wrong_names(tree, modules):
    """(line, module, name) of what is named and not there."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update((alias.asname or alias.name, alias.name) for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            yield from ((node.lineno, node.module, alias.name) for alias in node.names if alias.name not in modules[node.module])
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            module = imported[node.value.id]
            if node.attr not in modules[module]:
                yield node.lineno, module, node.attr


def main():
    trees = programs()
    modules = {}
    for path, tree in trees.items():  # modules of one name in two folders: what either has
        modules.setdefault(os.path.splitext(os.path.basename(path))[0], set()).update(names_of(tree))
    wrong = [f"{os.path.relpath(path, ROOT)}:{line}: {module} has no {name}"
             for path, tree in sorted(trees.items()) for line, module, name in wrong_names(tree, modules)]
    for line in wrong:
        print(line)
    print(f"{len(trees)} programs: {len(wrong)} names that are not there")
    return 1 if wrong else 0


sys.exit(main())
