#!/usr/bin/env python3
"""No include runs against what its folder may use.

A folder of the product is a static library. Its meson.build names what it may use, as FOLDER_uses = [..._dep, ...], where
every ..._dep is another folder. This test reads these lists, and every #include of every file:
  - a file may include its own folder and the folders that are named, nothing else of the project;
  - the folders use each other in one direction;
  - a room of control/ uses its own folders and those of the rooms below it (ROOMS).
    includes.py [--json]    exit 1: some include runs against it
"""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PRODUCT = ["common", "filter", "bpf", "control", "dataplane"]
ROOMS = ["base", "policy", "lists", "compile", "enforce", "sources", "tell"]  # bottom up; beside them the two programs
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def folders():
    """FOLDER -> its meson.build, of every folder of the product that says what it uses (common uses nothing)."""
    found = {}
    for part in PRODUCT:
        for folder, _, names in os.walk(os.path.join(ROOT, part)):
            path = os.path.relpath(folder, ROOT)
            if "meson.build" in names:
                text = open(os.path.join(folder, "meson.build"), encoding="utf8").read()
                if path == "common" or f"{path.replace('/', '_')}_uses" in text:
                    found[path] = text
    return found


def uses(path, text, by_name):
    """The folders that the meson file of `path` names."""
    listed = re.search(r"_uses = \[(.*?)\]\n", text, re.S)
    names = re.findall(r"(\w+)_dep\b", listed.group(1)) if listed else []
    return {by_name[name] for name in names if name in by_name}


def files_of(path, known):
    """Sources of the folder; folders below it that are none of their own belong to it."""
    for folder, below, names in os.walk(os.path.join(ROOT, path)):
        here = os.path.relpath(folder, ROOT)
        below[:] = [name for name in below if os.path.join(here, name) not in known]
        for name in sorted(names):
            if name.endswith((".h", ".cpp", ".c")):
                yield os.path.join(here, name)


def folder_of(file, known):
    folder = os.path.dirname(file)
    while folder and folder not in known:
        folder = os.path.dirname(folder)
    return folder


def cycle(graph):
    """Folders that use each other in a circle, or nothing."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for other in sorted(graph[node]):
            circle = visit(other)
            if circle:
                return circle
        path.pop()
        done.add(node)
        return None

    for node in sorted(graph):
        circle = visit(node)
        if circle:
            return circle
    return None


def room_of(folder):
    """How high the folder's room of control/ stands; None: it is in no room."""
    parts = folder.split("/")
    return ROOMS.index(parts[1]) if parts[0] == "control" and len(parts) > 1 and parts[1] in ROOMS else None


def upward(graph):
    """Folders that use a room above their own, one line each."""
    for folder, used in graph.items():
        for other in sorted(used):
            if room_of(folder) is not None and room_of(other) is not None and room_of(other) > room_of(folder):
                yield f"{folder} uses {other}, whose room stands above its own"


def check():
    """What is wrong, one line each."""
    known = folders()
    by_name = {path.replace("/", "_"): path for path in known}
    graph = {path: uses(path, text, by_name) for path, text in known.items()}
    wrong = list(upward(graph))
    for path in known:
        for file in files_of(path, known):
            text = open(os.path.join(ROOT, file), encoding="utf8").read()
            for included in INCLUDE.findall(text):
                if not os.path.exists(os.path.join(ROOT, included)):
                    continue  # generated
                target = folder_of(included, known)
                if target == "":
                    if included.split("/")[0] not in PRODUCT:
                        wrong.append(f"{file} includes {included}, which is none of the product's")
                elif target != path and target not in graph[path]:
                    wrong.append(f"{file} includes {included}: {path} may not use {target}")
    circle = cycle(graph)
    if circle:
        wrong.append("folders use each other in a circle: " + " -> ".join(circle))
    return wrong, sum(1 for path in known for _ in files_of(path, known)), len(known)


def main():
    wrong, n_files, n_folders = check()
    if "--json" in sys.argv[1:]:
        print(json.dumps({"against": len(wrong), "files": n_files, "folders": n_folders, "wrong": wrong}))
    else:
        for line in wrong:
            print(line)
        print(f"{n_files} files in {n_folders} folders: {len(wrong)} includes run against what a folder may use")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
