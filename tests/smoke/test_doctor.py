"""dataplane --doctor on this machine: its report as JSON and as text, and its exit codes."""

import json
import os
import re
import subprocess

import pytest

from weir_smoke import BUILD, write

pytestmark = pytest.mark.alone

SECTIONS = ["cpu", "quiet", "numa", "memory", "iommu", "cards", "process", "software"]
PAGE = 2 << 20


def doctor(*arguments):
    done = subprocess.run([os.path.join(BUILD, "dataplane/dataplane"), *arguments], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def report(*arguments):
    code, out, err = doctor(*arguments, "--json")
    assert code in (0, 1), f"exit code {code}: {err}"
    found = json.loads(out)
    assert [section["section"] for section in found["sections"]] == SECTIONS, "sections"
    findings = [finding for section in found["sections"] for finding in section["findings"]]
    for health, total in (("problem", "problems"), ("hint", "hints"), ("ok", "ok"), ("unknown", "unknown")):
        assert sum(finding["health"] == health for finding in findings) == found[total], total
    for finding in findings:
        assert ("fix" in finding) == (finding["health"] in ("hint", "problem")), f"a fix for {finding}"
    assert code == (1 if found["problems"] else 0), "exit code"
    return found


def test_the_text_has_every_section_of_the_json():
    found = report("--doctor")
    code, out, err = doctor("--no-pci", "-l", "0", "--", "--doctor")
    assert code in (0, 1), f"exit code {code}: {err}"
    for section in found["sections"]:
        assert section["title"].split(":")[0] in out, f"the text has {section['title']}:\n{out}"
    assert re.search(r"\d+ problems?, \d+ hints?; .* Nothing was changed\.\n$", out), f"the closing sentence:\n{out}"


def test_a_snapshot_memory_of_1_tib_is_a_problem(folder):
    config = write(folder, "big.yaml", "snapshot_memory: 1TiB\nmempool: {mbufs: 1000, data_room: 2176}\n")
    found = report("-l", "0", "--", "--doctor", "--config", config)
    memory = next(section["findings"] for section in found["sections"] if section["section"] == "memory")
    node = next(finding for finding in memory if re.fullmatch(r"node\d+", finding["check"]))
    if node["health"] == "unknown":
        pytest.skip("kernel: no huge pages")
    pages = (1 << 40) // PAGE + -(-(1000 * (128 + 64 + 2176) + (4 << 20)) // PAGE)
    assert node["health"] == "problem", node
    assert node["found"].startswith(f"{pages} pages of 2 MiB needed (1024 GiB"), f"{pages} pages: {node}"


@pytest.mark.parametrize("wrong", (["-l", "x", "--", "--doctor"], ["--", "--doctor", "--config", "none.yaml"], ["--", "--json"]),
                         ids=("processors", "configuration", "without --doctor"))
def test_wrong_arguments_end_with_2(wrong):
    assert doctor(*wrong)[0] == 2, "exit code"
