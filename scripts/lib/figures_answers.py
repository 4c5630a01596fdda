"""Figures of what weir answers before and after the drop. docs/develop/figures.md says how each is measured."""

import answers_economics

MEASUREMENTS = (
    *answers_economics.MEASUREMENTS,
)
