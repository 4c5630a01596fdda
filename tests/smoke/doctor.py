"""dataplane --doctor on this machine: every section, exit code by the problems, the pages that a huge snapshot_memory wants."""

import json
import os
import re
import subprocess

from weir_smoke import BUILD, check, equal, temporary_folder, write

DATAPLANE = os.path.join(BUILD, "dataplane/dataplane")
SECTIONS = ["cpu", "quiet", "numa", "memory", "iommu", "cards", "process", "software"]
PAGE = 2 << 20


def doctor(*arguments):
    done = subprocess.run([DATAPLANE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def report(*arguments):
    code, out, err = doctor(*arguments, "--json")
    check(code in (0, 1), f"exit code {code}: {err}")
    found = json.loads(out)
    equal([section["section"] for section in found["sections"]], SECTIONS, "sections")
    findings = [finding for section in found["sections"] for finding in section["findings"]]
    for health, total in (("problem", "problems"), ("hint", "hints"), ("ok", "ok"), ("unknown", "unknown")):
        equal(sum(finding["health"] == health for finding in findings), found[total], total)
    for finding in findings:
        equal("fix" in finding, finding["health"] in ("hint", "problem"), f"a fix for {finding}")
    equal(code, 1 if found["problems"] else 0, "exit code")
    return found


with temporary_folder() as folder:
    found = report("--doctor")
    code, out, err = doctor("--no-pci", "-l", "0", "--", "--doctor")
    check(code in (0, 1), f"exit code {code}: {err}")
    for section in found["sections"]:
        check(section["title"].split(":")[0] in out, f"the text has {section['title']}:\n{out}")
    check(re.search(r"\d+ problems?, \d+ hints?; .* Nothing was changed\.\n$", out), f"the closing sentence:\n{out}")

    config = write(folder, "big.yaml", "snapshot_memory: 1TiB\nmempool: {mbufs: 1000, data_room: 2176}\n")
    found = report("-l", "0", "--", "--doctor", "--config", config)
    memory = next(section["findings"] for section in found["sections"] if section["section"] == "memory")
    node = next(finding for finding in memory if re.fullmatch(r"node\d+", finding["check"]))
    if node["health"] != "unknown":  # a kernel without huge pages
        pages = (1 << 40) // PAGE + -(-(1000 * (128 + 64 + 2176) + (4 << 20)) // PAGE)
        equal(node["health"], "problem", f"1 TiB is too much: {node}")
        check(node["found"].startswith(f"{pages} pages of 2 MiB needed (1024 GiB"), f"{pages} pages: {node}")

    for wrong in (["-l", "x", "--", "--doctor"], ["--", "--doctor", "--config", folder + "/none.yaml"], ["--", "--json"]):
        equal(doctor(*wrong)[0], 2, f"exit code of {wrong}")
