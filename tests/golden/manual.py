#!/usr/bin/env python3
"""Every option and every key has its line in manual pages, completions, schemas, docs and examples (tests/release/rack_manual.py).
    manual.py BUILD [--json]
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/rig"))
import rooms  # noqa: E402,F401
from rack_manual import main  # noqa: E402 (path first)

sys.exit(main())
