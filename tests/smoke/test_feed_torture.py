"""Every feed format as it should be, cut at 100 places, as random bytes, as an HTML page, empty, and more than ten times as long:
nothing is unblocked without a word, and no program crashes."""

import json
import os
import subprocess

import pytest

from weir_smoke import BUILD

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_no_damaged_feed_unblocks_silently(folder):
    program = os.path.join(BUILD, "tests/bench/feed_figures")
    result = json.loads(subprocess.run([program, "torture", folder], stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert result["failures"] == [], "feeds that were not refused, or not taken, as they should have been"
    named_only = result["formats"] - result["by_auto"]
    assert named_only <= 1, f"`auto` takes {named_only} formats for others: only iprep looks like csv"
    assert result["cases"] == 105 * (result["formats"] + result["by_auto"]), f"{result['cases']} cases"
