"""Which corrections come too late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.core.overtaking import Overtaking, Position, position_in


def at(first_seen_ms: int, offset: int = 0) -> Position:
    return Position(first_seen_ms, offset)


def test_one_that_nothing_overtook_is_not_marked_and_nothing_is_kept_of_it() -> None:
    keys = Overtaking()
    keys.goes_away("a", at(5))
    assert keys.watches("a")
    assert not keys.comes_back("a", at(5))
    assert (len(keys), keys.watches("a")) == (0, False)


def test_one_that_a_newer_event_overtook_is_marked() -> None:
    keys = Overtaking()
    keys.goes_away("a", at(5))
    keys.goes_out("a", at(6))
    assert keys.comes_back("a", at(5))


def test_an_older_event_and_another_key_overtake_nothing() -> None:
    keys = Overtaking()
    keys.goes_away("a", at(5, 1))
    keys.goes_out("a", at(5, 0))
    keys.goes_out("b", at(9))
    assert not keys.comes_back("a", at(5, 1))


def test_of_two_that_come_back_in_the_wrong_order_the_second_is_marked() -> None:
    keys = Overtaking()
    keys.goes_away("a", at(5, 1))
    keys.goes_away("a", at(5, 2))
    assert not keys.comes_back("a", at(5, 2))
    keys.goes_out("a", at(5, 2))
    assert keys.comes_back("a", at(5, 1))
    assert len(keys) == 0


def test_a_second_copy_of_an_event_was_not_overtaken_by_the_first() -> None:
    keys = Overtaking()
    for _ in range(2):
        keys.goes_away("a", at(5))
    assert not keys.comes_back("a", at(5))
    keys.goes_out("a", at(5))
    assert not keys.comes_back("a", at(5))


def test_an_older_one_that_goes_away_later_does_not_keep_the_watch_alive() -> None:
    keys = Overtaking()
    keys.goes_away("a", at(5))
    keys.goes_away("a", at(4))
    assert keys.comes_back("a", at(4))
    assert not keys.comes_back("a", at(5))
    assert len(keys) == 0


@pytest.mark.parametrize("position", [None, at(4)])
def test_what_went_away_before_this_subtask_began_counts_as_overtaken(
    position: Position | None,
) -> None:
    keys = Overtaking()
    assert keys.comes_back("a", position)
    keys.goes_away("a", at(5))
    assert keys.comes_back("a", position)
    # And it does not end the watch over the other.
    assert keys.watches("a")


def test_keys_beyond_the_limit_are_not_watched_and_count_as_overtaken() -> None:
    keys = Overtaking(max_keys=1)
    keys.goes_away("a", at(1))
    keys.goes_away("b", at(2))
    assert len(keys) == 1
    assert keys.comes_back("b", at(2))
    assert not keys.comes_back("a", at(1))


@given(
    st.lists(
        st.tuples(st.sampled_from(["miss", "hit", "back"]), st.sampled_from("ab")), max_size=30
    ),
    st.integers(1, 2),
)
def test_no_overtaken_event_goes_unmarked(steps: list[tuple[str, str]], max_keys: int) -> None:
    keys = Overtaking(max_keys)
    away: dict[str, list[Position]] = {"a": [], "b": []}
    newest: dict[str, Position] = {}
    for number, (what, key) in enumerate(steps):
        here = at(number)
        if what == "miss":
            keys.goes_away(key, here)
            away[key].append(here)
        elif what == "hit":
            keys.goes_out(key, here)
            newest[key] = here
        elif away[key]:
            back = away[key].pop()
            marked = keys.comes_back(key, back)
            assert marked or newest.get(key, back) <= back
            keys.goes_out(key, back)
            newest[key] = max(newest.get(key, back), back)
    if not any(away.values()):
        assert len(keys) == 0


@pytest.mark.parametrize(
    ("headers", "position"),
    [
        ({"tablegate-first-seen": b"17", "tablegate-source": b"orders[2]@40"}, at(17, 40)),
        ({"tablegate-first-seen": b"17", "tablegate-source": b"orders[2]"}, None),
        ({"tablegate-first-seen": b"x", "tablegate-source": b"orders[2]@40"}, None),
        ({"tablegate-first-seen": b"9" * 19, "tablegate-source": b"orders[2]@40"}, None),
        ({"tablegate-source": b"orders[2]@40"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_headers_say_where_an_event_stood(
    headers: dict[str, bytes] | None, position: Position | None
) -> None:
    assert position_in(headers) == position
