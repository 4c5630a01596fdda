"""Calls of the kernel that fail in controld and the data plane, and clocks that jump: some of the cases of
scripts/figures safe.injected. What is blocked stays so, answers are true, and the next reload works."""

from weir_smoke import BUILD, check, equal, skips_without_namespaces

import faults
from rig import say

with skips_without_namespaces():
    found = faults.run(BUILD, few=True, progress=say)
equal(found["failed"], 0, "\n".join(faults.as_text(row) for row in found["rows"] if row["problem"]))
check(found["cases"] >= 40, f"too few cases: {found['cases']}")
print(f"{found['cases']} cases")
