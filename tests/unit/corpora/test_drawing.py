"""Drawing pairs: so many, in their order, by the seed."""

from hypothesis import given
from hypothesis import strategies as st

from lacuna.corpora import draw_pairs
from made_up import make_pairs

PAIRS = make_pairs(20)


@given(st.integers(0, 20), st.integers(0, 25), st.integers(0, 99))
def test_some_pairs_in_their_order(size: int, most: int, seed: int) -> None:
    pairs = PAIRS[:size]
    drawn = draw_pairs(pairs, most, seed)
    places = [id(pair) for pair in pairs]
    found = [places.index(id(pair)) for pair in drawn]
    assert found == sorted(set(found))
    assert len(found) == min(size, most)
    assert drawn == draw_pairs(pairs, most, seed)


def test_another_seed_draws_others() -> None:
    assert len({tuple(pair.source for pair in draw_pairs(PAIRS, 5, seed)) for seed in range(10)}) > 5
