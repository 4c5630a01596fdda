#!/usr/bin/env python3
"""Every option and every key has its line in manual pages, completions, schemas, docs and examples (scripts/lib/rack_manual.py).
    manual.py BUILD [--json]
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts/lib"))
from rack_manual import main  # noqa: E402 (path first)

sys.exit(main())
