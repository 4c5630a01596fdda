"""Every feed format as it should be, cut at 100 places, as random bytes, as an HTML page, empty, and more than ten times
as long: nothing is unblocked without a word, and nobody crashes."""

import json
import os
import subprocess
import tempfile

from weir_smoke import BUILD, check, equal

with tempfile.TemporaryDirectory(prefix="weir-torture-") as folder:
    done = subprocess.run([os.path.join(BUILD, "tests/bench/feed_figures"), "torture", folder], stdout=subprocess.PIPE,
                          text=True, check=True)
result = json.loads(done.stdout)
equal(result["failures"], [], "feeds that were not refused, or not taken, as they should have been")
named_only = result["formats"] - result["by_auto"]
check(named_only <= 1, f"`auto` takes {named_only} formats for others: only iprep looks like csv")
check(result["cases"] == 105 * (result["formats"] + result["by_auto"]), f"{result['cases']} cases")
print(f"{result['cases']} feeds in {result['formats']} formats")
