"""A client of Flink's SQL gateway for tests: its REST interface, and nothing of ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import requests

from jobs.sql.files import of_text

_TIMEOUT_S = 60
_POLL_S = 0.1


class GatewayError(Exception):
    """The gateway refused a statement; the text is its own."""


class Query:
    """A statement that runs; ``ended`` says that there are no more rows."""

    def __init__(self, ask: Callable[..., dict[str, Any]], path: str) -> None:
        self._ask, self._path = ask, path
        self._token = 0
        self.ended = False

    def poll(self) -> list[tuple[str, tuple[Any, ...]]]:
        """The next rows that there are now, each with its kind. Raises GatewayError."""
        answer = self._ask("GET", f"{self._path}/result/{self._token}?rowFormat=JSON")
        self.ended = answer["resultType"] == "EOS"
        if answer.get("nextResultUri"):
            self._token = int(answer["nextResultUri"].rpartition("/")[2].partition("?")[0])
        found = answer.get("results", {}).get("data", ())
        return [(row["kind"], tuple(row["fields"])) for row in found]

    def close(self) -> None:
        """Cancels the job of a query that goes on."""
        self._ask("DELETE", f"{self._path}/close")


class SqlSession:
    """One session, closed by ``close``."""

    def __init__(self, url: str, properties: dict[str, str] | None = None) -> None:
        self._url = f"{url}/v4"
        opened = self._ask("POST", "/sessions", properties=properties or {})
        self._path = f"/sessions/{opened['sessionHandle']}"

    def close(self) -> None:
        self._ask("DELETE", self._path)

    def run_all(self, text: str) -> None:
        """Every statement of a text, as a client does with a file."""
        for statement in of_text(Path("ddl.sql"), text, {}):
            self.run(statement.text)

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """A statement to its end, and its rows. Raises GatewayError."""
        return list(self.rows(statement))

    def rows(
        self, statement: str, until: Callable[[], bool] = lambda: False
    ) -> Generator[tuple[Any, ...], None, None]:
        """The rows of a statement as they come, until there are no more or ``until`` says so."""
        for _, fields in self.changes(statement, until):
            yield fields

    def changes(
        self, statement: str, until: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """As ``rows``, each with its kind."""
        query = self.query(statement)
        try:
            while not until():
                found = query.poll()
                yield from found
                if query.ended:
                    return
                if not found:
                    time.sleep(_POLL_S)
        finally:
            query.close()

    def query(self, statement: str) -> Query:
        """Start a statement. Its errors come with the first ``poll``."""
        started = self._ask("POST", f"{self._path}/statements", statement=statement)
        return Query(self._ask, f"{self._path}/operations/{started['operationHandle']}")

    def take(self, statement: str, count: int, deadline_s: float = 150) -> list[tuple[Any, ...]]:
        """The first ``count`` rows of a query that goes on."""
        end = time.monotonic() + deadline_s
        found: list[tuple[Any, ...]] = []
        for row in self.rows(statement, lambda: time.monotonic() > end):
            found.append(row)
            if len(found) == count:
                break
        assert len(found) == count, f"{len(found)} rows of {count} in {deadline_s} s: {found[:5]}"
        return found

    def _ask(self, method: str, path: str, **body: object) -> dict[str, Any]:
        json = body if method == "POST" else None
        response = requests.request(method, self._url + path, json=json, timeout=_TIMEOUT_S)
        answer: dict[str, Any] = response.json() if response.content else {}
        if not response.ok:
            raise GatewayError("\n".join(_texts(answer.get("errors", [response.text]))))
        return answer


def _texts(errors: Iterable[object]) -> list[str]:
    return [str(error) for error in errors]
