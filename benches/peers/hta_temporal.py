"""Holistic Trace Analysis, from nothing to the temporal breakdown of one trace, as its users call it.

    python hta_temporal.py TRACE

Prints the breakdown of the rank as JSON, times in us.
"""

import json
import logging
import sys

logging.disable(logging.CRITICAL)

from hta.trace_analysis import TraceAnalysis  # noqa: E402

analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
table = analysis.get_temporal_breakdown(visualize=False)
row = table.iloc[0]
json.dump({name: float(row[name]) for name in table.columns if name != "rank"}, sys.stdout)
