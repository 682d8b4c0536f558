"""The simplest of baselines: `json.load`, and nothing done with what it gives.

    python json_load.py TRACE ...
"""

import gzip
import json
import sys

for path in sys.argv[1:]:
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        json.load(file)
print("null")
