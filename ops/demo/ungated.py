"""The other job of the demo: the same join, which waits for nothing.

    flink run -d -pyfs build/tablegate-udfs.zip -py ops/demo/ungated.py --config conf/orders.toml

Same sources, same state, same outputs as `jobs/enrich.py`; no gate, no hold, no pause of the
stream. This is how such joins are usually written, and nothing about it fails.
"""

from __future__ import annotations

from jobs.enrich import main

if __name__ == "__main__":
    main(gated=False)
