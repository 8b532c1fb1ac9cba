from hypothesis import given
from hypothesis import strategies as st

from udfs.core.recent import Recent


def test_what_was_used_last_is_kept_and_the_rest_forgotten() -> None:
    recent: Recent[int] = Recent(4)
    for n in range(10):
        recent.put(n, n)
        assert recent.get(0) == 0, "asked for all the time"
    assert recent.get(9) == 9
    assert recent.get(3) is None


def test_what_is_dropped_is_gone_from_both_generations() -> None:
    recent: Recent[str] = Recent(4)
    for n in range(3):
        recent.put(n, "old")
    # The old generation has one of this key as well.
    recent.put(0, "new")
    recent.drop(0)
    assert recent.get(0) is None


def test_of_size_0_it_keeps_nothing() -> None:
    recent: Recent[str] = Recent(0)
    recent.put(1, "x")
    assert recent.get(1) is None
    assert len(recent) == 0


@given(
    st.integers(0, 6),
    st.lists(st.tuples(st.sampled_from("gpd"), st.integers(0, 9), st.integers(1, 99))),
)
def test_it_never_says_what_is_not_so_nor_grows(
    size: int, steps: list[tuple[str, int, int]]
) -> None:
    recent: Recent[int] = Recent(size)
    truth: dict[int, int] = {}
    for what, key, value in steps:
        if what == "p":
            recent.put(key, value)
            truth[key] = value
        elif what == "d":
            recent.drop(key)
            truth.pop(key, None)
        else:
            assert recent.get(key) in (None, truth.get(key))
        assert len(recent) <= size
