"""The process of `tests.support.warm_client`: one Flink client for many submissions.

Reads requests from stdin, one JSON object a line, and does for each what `flink run -py` does (the
steps of ``ClientUtils.executeProgram`` of Flink 2.3.0), in a JVM that stays. What the job prints
goes to stdout, as there.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from pyflink.java_gateway import get_gateway

# As for a job that may submit as many others as it likes: the command line's own default.
_ANY_NUMBER = 2**31 - 1


def main() -> None:
    jvm = get_gateway().jvm
    for line in sys.stdin:
        request = json.loads(line)
        code = _submit(jvm, request)
        sys.stdout.flush()
        sys.stderr.flush()
        answer = Path(request["answer"])
        partial = answer.with_suffix(".tmp")
        partial.write_text(json.dumps(code))
        partial.rename(answer)


def _submit(jvm: Any, request: dict[str, Any]) -> int:
    context = jvm.org.apache.flink.client.program.StreamContextEnvironment
    flink = jvm.org.apache.flink
    settings = flink.configuration.GlobalConfiguration.loadConfiguration(request["conf_dir"])
    for name, value in request["settings"].items():
        settings.setString(name, value)
    context.setAsContext(
        flink.core.execution.DefaultExecutorServiceLoader(),
        settings,
        jvm.java.lang.Thread.currentThread().getContextClassLoader(),
        *(_ANY_NUMBER, _ANY_NUMBER),
        False,
        *(None, None),
        jvm.java.util.ArrayList(),
    )
    before, arguments = dict(os.environ), sys.argv
    os.environ.update(request["environment"])
    sys.argv = [request["entry"], *request["arguments"]]
    try:
        runpy.run_path(request["entry"], run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception:  # noqa: BLE001  (the next request has to be answered too)
        traceback.print_exc()
        return 1
    else:
        return 0
    finally:
        context.unsetAsContext()
        os.environ.clear()
        os.environ.update(before)
        sys.argv = arguments


if __name__ == "__main__":
    main()
