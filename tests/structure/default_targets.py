#!/usr/bin/env python3
"""Without tests (-Dtests=disabled, as scripts/demo builds), `ninja` builds the programs and everything that
`meson install` puts somewhere, and nothing else.
    default_targets.py BUILD
"""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = {"dataplane", "controld", "controlctl", "weir-connect"}

targets = json.loads(subprocess.check_output(["meson", "introspect", "--targets", sys.argv[1]]))
default = [target for target in targets if target["build_by_default"]
           and not os.path.relpath(target["defined_in"], ROOT).startswith("tests" + os.sep)]
wrong = []
programs = {target["name"] for target in default if target["type"] == "executable"}
if programs != PROGRAMS:
    wrong.append(f"ninja builds {', '.join(sorted(programs))}, not {', '.join(sorted(PROGRAMS))}")
installed = {target["name"] for target in targets if target["installed"]}
if left := installed - {target["name"] for target in default}:
    wrong.append(f"installed, but not built by ninja: {', '.join(sorted(left))}")
print("\n".join(wrong) or f"ninja builds {len(default)} targets, all of the product")
sys.exit(1 if wrong else 0)
