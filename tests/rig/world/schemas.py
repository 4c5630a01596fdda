"""YAML as editors read it, and what the schemas say of files. Needs python3-yaml and python3-jsonschema."""

import glob
import json
import os
import re

import jsonschema
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


class Core(yaml.SafeLoader):
    """YAML 1.2's core schema, which editors and weir know: no times, no numbers of base 60, no `yes` and `no`."""


Core.yaml_implicit_resolvers = {}
for tag, pattern, first in (("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
                            ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
                            ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
                            ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""])):
    Core.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), list(first))


def load_yaml(text):
    return yaml.load(text, Loader=Core)


# Policies of configs/bad whose fault no schema sees: what an address is, what belongs together, how often a thing may be there,
# what is in a feed, how YAML was written.
BEYOND_SCHEMA = set("""
    canaries capture-filter capture-folder entry-any entry-cannot-match entry-header-cannot-match entry-names-nothing
    entry-port-in-address entry-port entry-prefix entry-range entry-two-forms feed-content feed-empty-name feed-folder
    feed-missing feed-pattern filter-layout-ribbon-rate filter-memory-too-small list-mode-of-pass
    list-name-twice metrics-listen state-dir-empty target-path target-twice target-xdp-twice too-many-lists
    warning-plan-without-samples warnings-of-entries yaml-duplicate-key yaml-tag
""".split())


def findings_of(schema, value):
    errors = jsonschema.Draft7Validator(schema).iter_errors(value)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in errors]


def schema_findings(built, with_examples):
    """What is wrong with schemas, or with files that they judge."""
    schemas = {}
    found = []
    for name in "weir", "dataplane", "steer":
        with open(built.made(f"{name}.schema.json"), encoding="utf-8") as file:
            schemas[name] = json.load(file)
        jsonschema.Draft7Validator.check_schema(schemas[name])

    def judge(name, path, text):
        found.extend(f"{path}: {error}" for error in findings_of(schemas[name], load_yaml(text)))

    for path in sorted(glob.glob(os.path.join(ROOT, "configs/**/*.yaml"), recursive=True)):
        place = os.path.relpath(path, ROOT)
        if place.startswith("configs/bad/"):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        told = re.match(r"# yaml-language-server: \$schema=/usr/share/weir/schema/(\w+)\.schema\.json\n", text)
        if told is None:
            if re.search(r"^(lists|ports|rules|socket):", text, re.M):
                found.append(f"{place}: its first line does not name its schema")
            continue
        judge(told.group(1), place, text)
        judge(told.group(1), f"{place}, with its examples", with_examples(text))
    return found + faults_that_pass(schemas["weir"])


def faults_that_pass(schema):
    """Policies of configs/bad that the schema should refuse, and does not."""
    found = []
    for path in sorted(glob.glob(os.path.join(ROOT, "configs/bad/*.yaml"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        try:
            value = load_yaml(text)
        except (yaml.YAMLError, ValueError):
            continue  # an editor says so without a schema
        name = os.path.basename(path).removesuffix(".yaml")
        if not findings_of(schema, value) and name not in BEYOND_SCHEMA:
            found.append(f"configs/bad/{name}.yaml: the schema lets it pass; if no schema can see what is wrong, add it to "
                         "BEYOND_SCHEMA in tests/rig/world/schemas.py")
    return found
