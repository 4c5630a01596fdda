"""Whether every option and every key has its line where people look: manual pages, completions, schemas, docs, and the examples
in configs/. What there is is asked of the programs themselves, not of the tables that pages are made of: options of --help, keys
of the readers, which list what they know when they are given a key that they do not know.
    rack_manual.py BUILD [--json]     exit 1: something is missing, or mandoc or a schema found something; 77: a tool is missing"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests/rig"))
import rooms  # noqa: E402,F401
from shells import bash_words, fish_words, zsh_words  # noqa: E402 (path first)

UNKNOWN = "zzzzqq"  # resembles no key, so that no reader guesses
PYTHON = "/usr/bin/python3"  # for which Debian packages modules; another one may come first in PATH
TOOLS = ("mandoc", "bash", "zsh", "fish")
PAGES = ("controlctl.1", "controld.8", "dataplane.8", "weir.yaml.5", "dataplane.yaml.5", "steer.yaml.5")
# Which docs name the keys of a file, beside its page.
DOCS = {"weir.yaml": ("docs/use/policy.md", "docs/operate/capture.md", "docs/operate/metrics.md"),
        "dataplane.yaml": ("docs/operate/dataplane.md", "docs/operate/security.md", "docs/operate/telemetry.md"),
        "steer.yaml": ("docs/operate/steering.md",)}
OPTION_DOCS = {"controld": ("docs/use/control.md", "docs/operate/metrics.md"),
               "dataplane": ("docs/operate/dataplane.md", "docs/operate/doctor.md")}


def output(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **options).stdout


class Built:
    """Where a build has its programs and pages."""

    def __init__(self, build):
        self.build = build
        self.programs = {"controlctl": f"{build}/control/controlctl", "controld": f"{build}/control/controld",
                         "dataplane": f"{build}/dataplane/dataplane"}

    def page(self, name):
        return f"{self.build}/{'control' if name == 'controlctl.1' else 'docs/manual'}/{name}"

    def made(self, name):
        return f"{self.build}/docs/manual/{name}"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# --- what there is


def options_in(help_text):
    """Names of options at the beginning of lines: `  -h, --help  ...`."""
    names = set()
    for line in help_text.splitlines():
        if begin := re.match(r" {2,}(-\w(?:,\s*--[\w-]+)?|--[\w-]+)(?=[\s,]|$)", line):
            names |= set(re.findall(r"--?[\w-]+", begin.group(1)))
    return names


def all_options(built):
    """(program, command or "") -> names of options."""
    found = {("controld", ""): options_in(output(built.programs["controld"], "--help")),
             ("dataplane", ""): options_in(output(built.programs["dataplane"], "--", "--help"))}
    general = output(built.programs["controlctl"], "--help")
    found["controlctl", ""] = options_in(general)
    for command in re.findall(r"^  ([a-z]+)  +\S", general, re.M):
        found["controlctl", command] = options_in(output(built.programs["controlctl"], command, "--help"))
    return found


class Reader:
    """A program that reads a YAML file, and says which keys it knows where."""

    def __init__(self, built, file):
        self.file = file
        self.command = {"weir.yaml": [built.programs["controlctl"], "check", "--config"],
                        "dataplane.yaml": [built.programs["dataplane"], "--", "--doctor", "--config"],
                        "steer.yaml": [built.programs["controlctl"], "steer", "--check"]}[file]
        self.head = "" if file == "dataplane.yaml" else "version: 1\n"

    def said_of(self, text, folder):
        path = os.path.join(folder, "asked.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return output(*self.command, path, cwd=folder)

    def keys(self, folder):
        """Every key, with all that it stands in: lists[].guard.max_shrink."""
        said = self.said_of(f"{self.head}{UNKNOWN}: 1\n", folder)
        known = re.search(rf"unknown key `{UNKNOWN}` in .*\n.*\nhint: known keys: (.*)", said)
        if known is None:
            raise ValueError(f"{self.file}: nobody tells which keys there are:\n{said}")
        found = []
        self._below("", known.group(1).split(", "), lambda inner: self.head + inner.strip("{}"), found, folder)
        return found

    def _below(self, path, keys, wrapped, found, folder):
        found += [f"{path}.{key}".lstrip(".") for key in keys]
        keys = [key for key in keys if path or key != "version"]
        for form in "{%s: 1}", "[{%s: 1}]":
            probe = form % UNKNOWN
            line_of = {}
            inner = "{"
            for key in keys:
                line_of[key] = wrapped(inner + "\n@@").partition("@@")[0].count("\n") + 1
                inner += f"\n{key}: {probe}" + ("," if path else "")
            said = self.said_of(wrapped(inner + "\n}"), folder)
            hints = {int(line): names for line, names in re.findall(
                rf":(\d+):\d+: error: unknown key `{UNKNOWN}` in .*\n.*\nhint: known keys: (.*)", said)}
            formats = re.search(rf"`format` is `{UNKNOWN}`, .*\n.*\nhint: formats: auto, (.*)", said)
            for key in keys:
                step = f"{path}.{key}".lstrip(".") + ("[]" if form[0] == "[" else "")
                end = "]" if form[0] == "[" else ""

                def around(text, key=key, begin=form[0] if end else "", end=end):
                    return wrapped("{\n" + f"{key}: {begin}{text}{end}" + "\n}")

                if line_of[key] in hints:
                    self._below(step, hints[line_of[key]].split(", "), around, found, folder)
                elif key == "format" and formats and not end:
                    self._formats(step, formats.group(1).split(", "), around, found, folder)

    def _formats(self, path, names, wrapped, found, folder):
        for name in names:
            said = self.said_of(wrapped(f"{{{name}: {{{UNKNOWN}: 1}}}}"), folder)
            known = re.search(rf"unknown key `{UNKNOWN}` in .*\n.*\nhint: known keys: (.*)", said)
            found += [f"{path}.{name}.{setting}" for setting in (known.group(1).split(", ") if known else [])]


# --- where it has to be


def rendered(page):
    text = output("mandoc", "-T", "utf8", "-O", "width=200", page)
    return re.sub(r".\x08", "", text)


def items_of(page):
    """Heading -> what stands under it: the items of its lists. Headings of sections and below them."""
    found, heading = {}, ""
    for line in rendered(page).splitlines():
        if match := re.match(r"(?: {3})?(\S.*)", line):
            heading = match.group(1)
        elif match := re.match(r" {7}(\S[^ :,]*(?:, -\S+)?)", line):
            found.setdefault(heading, set()).update(match.group(1).split(", "))
    return found


def below_page(path):
    """(heading, item) of a key: lists[].guard.max_shrink is an item of lists[].guard."""
    heading, _, item = path.rpartition(".")
    return heading or "KEYS", item


def schema_paths(schema, path=""):
    """Every key of a JSON Schema."""
    found = set()
    for way in [schema] + schema.get("anyOf", []):
        for name, below in way.get("properties", {}).items():
            step = f"{path}.{name}".lstrip(".")
            found |= {step} | schema_paths(below, step)
        if isinstance(way.get("items"), dict):
            found |= schema_paths(way["items"], path + "[]")
    return found


def value_paths(value, path=""):
    """Every key of a YAML value."""
    found = set()
    if isinstance(value, dict):
        for name, below in value.items():
            step = f"{path}.{name}".lstrip(".")
            found |= {step} | value_paths(below, step)
    if isinstance(value, list):
        for item in value:
            found |= value_paths(item, path + "[]")
    return found


def with_examples(text):
    """A file of configs/ with what is commented out in it: `#key: ...`, and the lines `#  ...` that follow."""
    lines, inside = [], False
    for line in text.splitlines():
        begin = re.match(r" *#(?:  )?(?:- )?[a-z_0-9]+:(?: |$)|^#  - ", line)
        inside = bool(begin) or (inside and re.match(r" *#  +\S", line) is not None)
        lines.append(line.replace("#", "", 1) if inside else line)
    return "\n".join(lines) + "\n"


def in_docs(paths):
    """The text of pages, and of all pages in folders."""
    full = [os.path.join(ROOT, path) for path in paths]
    return "".join(read(name) for path in full
                   for name in ([path] if os.path.isfile(path) else sorted(glob.glob(os.path.join(path, "*.md")))))


def check(built):
    """What is missing, what is wrong, and how much was looked at."""
    from schemas import load_yaml, schema_findings  # needs python3-yaml, python3-jsonschema
    missing, looked = [], 0

    def want(is_there, what, where):
        nonlocal looked
        looked += 1
        if not is_there:
            missing.append(f"{what}: not in {where}")

    options = all_options(built)
    pages = {name: items_of(built.page(name)) for name in PAGES}
    for (program, command), names in options.items():
        page = next(name for name in PAGES if name.startswith(program + ".") and "yaml" not in name)
        if command:
            want(command in pages[page], f"controlctl {command}", page)
        items = set().union(*(pages[page].get(heading, set()) for heading in
                              ([command] if command else []) + ["OPTIONS", "OPTIONS OF EVERY COMMAND"]))
        for name in names - {"-h", "--version"}:
            want(name in items, f"{program} {command} {name}", page)
        docs = in_docs(OPTION_DOCS.get(program, ()))
        for name in names - {"-h", "--help", "--version"} if docs else ():
            want(re.search(rf"(?<![\w-]){name}(?![\w-])", docs), f"{program} {name}", "docs")

    questions = [(program, command) for program, command in options]
    for shell, complete in (("bash", bash_words), ("zsh", zsh_words), ("fish", fish_words)):
        for program in built.programs:
            file = built.made(f"_{program}" if shell == "zsh" else f"{program}.{shell}")
            asked = [command for name, command in questions if name == program]
            given = complete(program, file, [f"{command} --".strip() for command in asked])
            for command, words in zip(asked, given):
                for name in options[program, command]:
                    if name.startswith("--") and not (command and name == "--version"):
                        want(name in words, f"{program} {command} {name}", f"completion of {shell}")
        commands = complete("controlctl", built.made("_controlctl" if shell == "zsh" else f"controlctl.{shell}"), [""])[0]
        for program, command in questions:
            if command:
                want(command in commands, f"controlctl {command}", f"completion of {shell}")

    with tempfile.TemporaryDirectory(prefix="weir-manual-") as folder:
        keys = {file: Reader(built, file).keys(folder) for file in DOCS}
    for file, paths in keys.items():
        schema = schema_paths(json.loads(read(built.made(file.replace(".yaml", ".schema.json")))))
        example = value_paths(load_yaml(with_examples(read(os.path.join(ROOT, "configs", file)))))
        docs = in_docs(DOCS[file])
        for path in paths:
            heading, item = below_page(path)
            want(item in pages[f"{file}.5"].get(heading, set()), f"{file} {path}", f"{file}.5")
            want(path in schema, f"{file} {path}", "its schema")
            # Settings of formats are in docs/use/policy.md, "Formats", and in `controlctl formats`.
            if not path.startswith("lists[].format."):
                want(path in example, f"{file} {path}", f"configs/{file}")
            want(re.search(rf"`[^`]*\b{re.escape(item)}\b[^`]*`", docs), f"{file} {path}", "docs")

    lint = [line for page in PAGES for line in output("mandoc", "-T", "lint", "-W", "style", built.page(page)).splitlines()]
    findings = schema_findings(built, with_examples)
    return {"missing": missing, "looked": looked, "options": sum(map(len, options.values())),
            "keys": sum(map(len, keys.values())), "mandoc": lint, "schema": findings}


def man_missing(build, _folder):
    from figure import at_most
    from rig import Skip, build_release
    build_release(build)
    targets = [os.path.relpath(path, build) for path in needed_files(Built(build))]
    subprocess.run(["ninja", "-C", build, *targets], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([sys.executable, os.path.abspath(__file__), build, "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode == 77:
        raise Skip(done.stdout.strip(), missing_here=True)
    if not done.stdout.startswith("{"):
        raise ValueError(done.stderr or done.stdout)
    result = json.loads(done.stdout)
    note = (f"{result['options']} options and {result['keys']} keys, looked for in {result['looked']} places; "
            f"mandoc findings {len(result['mandoc'])}, schema findings {len(result['schema'])}")
    return [at_most("rack.man_missing", len(result["missing"]), 0, "options or keys", note)], result


def needed_files(built):
    programs = built.programs.values()
    schemas = [built.made(file.replace(".yaml", ".schema.json")) for file in DOCS]
    completions = [built.made(name) for program in built.programs for name in (f"_{program}", f"{program}.bash", f"{program}.fish")]
    return [*programs, *map(built.page, PAGES), *schemas, *completions]


MEASUREMENTS = ((("rack.man_missing",), man_missing),)


def main():
    built = Built(os.path.abspath(sys.argv[1]))
    for tool in TOOLS:
        if not shutil.which(tool):
            print(f"skipped: package: {tool} is missing (scripts/setup test)")
            return 77
    try:
        import jsonschema, yaml  # noqa: E401, F401
    except ImportError as error:
        if sys.executable != PYTHON and os.path.exists(PYTHON):
            os.execv(PYTHON, [PYTHON, *sys.argv])
        print(f"skipped: package: {error.name} is missing for {sys.executable} (scripts/setup test)")
        return 77
    result = check(built)
    if "--json" in sys.argv[2:]:
        print(json.dumps(result))
    else:
        for line in result["missing"] + result["mandoc"] + result["schema"]:
            print(line)
        print(f"{result['options']} options and {result['keys']} keys, looked for in {result['looked']} places: "
              f"{len(result['missing'])} missing; mandoc findings {len(result['mandoc'])}, schema findings {len(result['schema'])}")
    return 1 if result["missing"] or result["mandoc"] or result["schema"] else 0


if __name__ == "__main__":
    sys.exit(main())
