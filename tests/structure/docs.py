#!/usr/bin/env python3
"""README.md and docs/ say what is so.

  links       each relative link and anchor leads somewhere
  commands    each `controlctl COMMAND --option` (or `weir COMMAND`) that is written as code is one that controlctl knows, and so are the programs'
              own options; each scripts/NAME is there
  policies    each block of code that begins with `version: 1` is a policy that `controlctl check` takes
  beginning   README.md has one block of code that shows a newcomer both commands: scripts/demo, scripts/test
  messages    each message that docs/operate/troubleshooting.md quotes in a first column is in the sources

    docs.py CONTROLCTL CONTROLD
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = ["common", "filter", "bpf", "control", "dataplane"]
QUOTING = ROOT / "docs/operate/troubleshooting.md"
faults = []


def fault(page, number, text):
    faults.append(f"{page.relative_to(ROOT)}:{number}: {text}")


def slug(heading):
    """The anchor that a heading gets, by the rules of GitHub."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors_of(page):
    found, in_fence = set(), False
    for line in page.read_text(encoding="utf-8").splitlines():
        in_fence ^= line.startswith("```")
        if not in_fence and re.match(r"#{1,6} ", line):
            found.add(slug(line.split(" ", 1)[1]))
    return found


def check_links():
    n = 0
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("    "):
                continue
            for target in re.findall(r"\]\(([^()\s]+)\)", line):
                if re.match(r"[a-z]+:", target):
                    continue
                n += 1
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                if not file.exists():
                    fault(page, number, f"the link to {target} leads nowhere")
                elif anchor and file.suffix == ".md" and anchor not in anchors_of(file):
                    fault(page, number, f"{target}: no heading there has this anchor")
    return n


def codes():
    """(page, line number, code) of every line of a block, and of every piece in backquotes."""
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("    "):
                yield page, number, line.strip().split(" #")[0]
            else:
                for code in re.findall(r"`([^`]+)`", line):
                    yield page, number, code


def options_of(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    return set(re.findall(r"(?<![\w-])(--?[a-z][a-z0-9-]*)", done.stdout + done.stderr))


def check_commands(controlctl, controld):
    overview = subprocess.run([controlctl, "help"], capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^  ([a-z]+)  +\S", overview.split("Options of every command")[0], re.M))
    assert {"status", "restore", "check"} <= commands, commands
    known = {name: options_of(controlctl, "help", name) for name in commands}
    of_controld = options_of(controld, "--help")
    n = 0
    for page, number, code in codes():
        for match in re.finditer(r"(?:^|[\s/(])(controlctl|weir)((?: [^|;&<>()]*)?)", code):
            words = match.group(2).split()
            while words and words[0] in ("--json", "--socket"):  # those of every command may stand before it
                words = words[2 if words[0] == "--socket" else 1:]
            if not words or not re.fullmatch(r"[a-z][a-z-]*", words[0]):
                continue  # COMMAND, --version, $(...)
            if match.group(1) == "weir" and words[0] not in commands:
                continue  # a message begins so, or a sentence
            n += 1
            if words[0] not in commands:
                fault(page, number, f"`controlctl {words[0]}`: there is no such command")
                continue
            for word in words[1:]:
                option = re.sub(r"[`'\"].*|[=,.:\]].*", "", word.strip("[`'\"(").rstrip(".,:"))
                if re.fullmatch(r"--[a-z][a-z-]*", option) and option not in known[words[0]] | {"--help"}:
                    fault(page, number, f"`controlctl {words[0]}` has no option {option}")
        match = re.match(r"(?:build/control/)?controld (--[^|;&]*)", code)
        for option in re.findall(r"--[a-z][a-z-]*", match.group(1) if match else ""):
            n += 1
            if option not in of_controld:
                fault(page, number, f"controld has no option {option}")
        for path in re.findall(r"(?<![\w/-])(?:scripts/[A-Za-z0-9_./-]*[A-Za-z0-9_]|tests/[A-Za-z0-9_./-]*\.(?:py|cpp|h))", code):
            if re.search(r"[A-Z]{3,}", path):
                continue  # tests/bench/figures/figures_NAME.py
            n += 1
            if not (ROOT / path).exists() and not list(ROOT.glob(path + ".*")):
                fault(page, number, f"there is no {path}")
    return n


def policies():
    """(page, line number, text) of each block of code that begins with `version: 1`."""
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if line != "    version: 1":
                continue
            block = []
            for following in lines[number - 1:]:
                if following and not following.startswith("    "):
                    break
                block.append(following[4:])
            yield page, number, "\n".join(block) + "\n"


def check_policies(controlctl):
    n = 0
    for page, number, text in policies():
        n += 1
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "weir.yaml"
            path.write_text(text, encoding="utf-8")
            for feed in re.findall(r"^\s*(?:- \{.*)?\bfile: \"?([^\s,}\"]+)", text, re.M):  # which the page does not show
                file = path.parent / feed
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("[]\n" if feed.endswith(".json") else "192.0.2.1\n", encoding="utf-8")
            done = subprocess.run([controlctl, "check", str(path)], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != 0:
                fault(page, number, "this policy is refused:\n" + (done.stdout + done.stderr).replace(folder + "/", ""))
    return n


def texts_of_sources():
    """All string literals, those that stand side by side as one, on a line each. What is filled in when the program runs is
    the letter \\0."""
    texts = []
    for folder in SOURCES:
        for file in sorted((ROOT / folder).rglob("*.[ch]*")):
            if file.suffix not in (".cpp", ".h", ".c"):
                continue
            code = file.read_text(encoding="utf-8")
            for literals in re.findall(r'(?:"(?:[^"\\\n]|\\.)*"(?:sv)?\s*)+', code):
                text = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literals))
                texts.append(re.sub(r"\{[^{}]*\}|%[a-z]+", "\0", text.replace("\\n", " ").replace('\\"', '"')))
    return texts


def quoted_messages():
    """(line number, message) of the first cells of tables with a column `message`."""
    is_quoting = False
    for number, line in enumerate(QUOTING.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("| message |"):
            is_quoting = True
        elif not line.startswith("|"):
            is_quoting = False
        elif is_quoting and not line.startswith("|---"):
            message = re.match(r"\| (`+)(.+?)\1 \|", line)
            if message:
                yield number, message.group(2).strip()
            else:
                fault(QUOTING, number, "no message in backquotes in the first column")


BEGINNING = ("scripts/demo", "scripts/test")


def blocks_of(page):
    blocks, block = [], []
    for line in page.read_text(encoding="utf-8").splitlines() + [""]:
        if line.startswith("    "):
            block.append(line.strip())
        elif block:
            blocks.append(block)
            block = []
    return blocks


def check_beginning():
    readme = ROOT / "README.md"
    for block in blocks_of(readme):
        commands = [line.split()[0] for line in block]
        if all(command in commands for command in BEGINNING):
            return len(BEGINNING)
    fault(readme, 1, f"no block of code shows both {' and '.join(BEGINNING)}")
    return 0


FROM_THE_SYSTEM = {"Permission denied", "Operation not permitted"}  # strerror(3)


def check_messages():
    texts = texts_of_sources()
    n = 0
    for number, message in quoted_messages():
        n += 1
        if message in FROM_THE_SYSTEM:
            continue
        # A text that the sources put together of pieces: each piece that does not change must be there.
        pieces = re.split(r"\b(?:[A-Z]{3,}|N)\b" if not re.fullmatch(r"[A-Z ]+", message) else r"\0", message)
        for piece in pieces:
            words = piece.strip(" `'")
            if len(words) > 2 and not any(words in text for text in texts):
                fault(QUOTING, number, f"no program says `{words}` (of `{message}`)")
    return n


def main():
    controlctl, controld = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:3])
    counts = {"links": check_links(), "commands": check_commands(controlctl, controld), "policies": check_policies(controlctl),
              "messages": check_messages(), "beginning": check_beginning()}
    for text in faults:
        print(text)
    print(f"{', '.join(f'{n} {what}' for what, n in counts.items())} on {len(PAGES)} pages, {len(faults)} faults")
    return bool(faults) or not all(counts.values())


if __name__ == "__main__":
    sys.exit(main())
