"""Figures of what weir answers before and after the drop. docs/develop/figures.md says how each is measured."""

import answers_economics
import answers_plan
import answers_provenance
import answers_shadow
import answers_rates

MEASUREMENTS = (
    *answers_plan.MEASUREMENTS,
    *answers_economics.MEASUREMENTS,
    *answers_shadow.MEASUREMENTS,
    *answers_rates.MEASUREMENTS,
    *answers_provenance.MEASUREMENTS,
)
