"""The user's merge function, found before the job is submitted."""

from __future__ import annotations

import importlib
import inspect

from udfs.core.errors import ConfigError
from udfs.core.merge import UserMerge


def load_merge(path: str) -> UserMerge:
    """The function at ``module:function`` (the setting job.merge), checked but not called.

    Raises:
        ConfigError: when the module or the function is missing, or cannot take an event and a row.
    """
    module_name, _, function_name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        # Whatever the user's module does at import: here it is one wrong setting.
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(
            "job.merge",
            path,
            f"module {module_name} cannot be imported ({reason}): install it, or put its folder "
            "on PYTHONPATH here and ship it to the workers with flink run -pyfs",
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        what = "has no" if function is None else "has no callable"
        raise ConfigError("job.merge", path, f"module {module_name} {what} {function_name}")
    try:
        inspect.signature(function).bind({}, {})
    except TypeError as error:
        raise ConfigError(
            "job.merge", path, f"it must take an event and a row, both dicts ({error})"
        ) from error
    except ValueError:
        # A function written in C may tell nothing of its arguments.
        pass
    merge: UserMerge = function
    return merge
