"""Holistic Trace Analysis, from nothing to the temporal breakdown, as its users call it.

    python hta_temporal.py TRACE ...

One trace a rank, ranks in order. Prints the breakdown of each as JSON, times in us.
"""

import json
import logging
import sys

logging.disable(logging.CRITICAL)

from hta.trace_analysis import TraceAnalysis  # noqa: E402

analysis = TraceAnalysis(trace_files=dict(enumerate(sys.argv[1:])))
table = analysis.get_temporal_breakdown(visualize=False)
names = {name: name.replace("time(us)", "us") for name in table.columns if name.endswith("(us)")}
rows = table[["rank", *names]].rename(columns=names).astype(float)
json.dump(rows.to_dict("records"), sys.stdout)
