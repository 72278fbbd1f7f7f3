"""Verdicts on the paper's claims, with made-up results and hand-worked values."""

import pytest

from lacuna.evaluation import RunsDifference, TermAccuracy
from lacuna.reproduction.claims import check_claims
from lacuna.reproduction.comparison import COMPARED, WHOLE, ComparisonResults, SystemResult
from lacuna.reproduction.tables import Column, Table

BLEU = {"random": 20.0, "cluster": 19.0, "merge": 21.0, "known": 22.0, "plac": 22.0, "reverse": 15.0}


def results(shares: dict[tuple[str, str], float], seeds: tuple[int, ...] = (1, 2, 3)) -> ComparisonResults:
    systems = [SystemResult(name, 0.1, 90, str(seed), {"bleu": BLEU[name]}) for name in COMPARED for seed in seeds]
    names = (WHOLE, *COMPARED)
    differences = {
        one: {other: RunsDifference(-0.5, -1.25, 0.25, shares.get((one, other), 0.5)) for other in names}
        for one in names
    }
    return ComparisonResults(0.1, 0.1, [], TermAccuracy(0, {}), systems, differences, None, [], [], [], [], {})


ACCURACY = Table(
    "accuracy",
    "Accuracy",
    (Column("margin"), Column("tokens"), Column("accuracy")),
    (("0", 10, 0.2), ("1", 10, 0.4), ("2", 0, None), ("4", 10, 0.9)),
)


def verdict(shares: dict[tuple[str, str], float], claim: str) -> str:
    [checked] = [each for each in check_claims(results(shares), ACCURACY, 0.9) if claim in each.claim]
    return checked.verdict


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({("random", "plac"): 0.01, ("plac", "random"): 0.99}, "holds"),
        ({("random", "plac"): 0.99, ("plac", "random"): 0.01}, "does not hold"),
        ({("random", "plac"): 0.40, ("plac", "random"): 0.60}, "within noise"),
    ],
)
def test_plac_beats_another_only_where_chance_would_not(shares: dict[tuple[str, str], float], expected: str) -> None:
    assert verdict(shares, "PLAC beats random") == expected


@pytest.mark.parametrize(("share", "expected"), [(0.05, "holds"), (0.04, "does not hold")])
def test_plac_loses_nothing_unless_the_loss_is_significant(share: float, expected: str) -> None:
    assert verdict({("plac", WHOLE): share}, "without a significant loss") == expected
    [checked] = [each for each in check_claims(results({}), ACCURACY, 0.9) if "loss" in each.claim]
    assert checked.claim == "PLAC drops 10% of the entries without a significant loss"
    assert checked.figures == (
        "-0.50 BLEU (95 % interval -1.25 to +0.25; mean of 3 seeds, 10.0% dropped); PLAC is number 1 of 6 methods"
    )
    [checked] = [each for each in check_claims(results({}, seeds=(1,)), ACCURACY, 0.9) if "loss" in each.claim]
    assert "; one seed, 10.0% dropped)" in checked.figures


def test_what_is_missing_is_not_judged() -> None:
    nothing = ComparisonResults(0.1, 0.1, [], None, [], {}, None, [], [], [], [], {"seed 1": "main"})
    claims = check_claims(nothing, None, 0.9)
    assert [claim.verdict for claim in claims] == ["not measured", "holds"]


def test_reverse_hurts_most_only_if_it_is_below_all() -> None:
    others = [name for name in COMPARED if name != "reverse"]
    below_all = {("reverse", name): 0.0 for name in others}
    assert verdict(below_all, "Reverse") == "holds"
    assert verdict(below_all | {("reverse", "cluster"): 0.3}, "Reverse") == "within noise"
    assert verdict(below_all | {("cluster", "reverse"): 0.0, ("reverse", "cluster"): 1.0}, "Reverse") == "does not hold"


def test_accuracy_and_the_share_of_unknown_entries() -> None:
    claims = check_claims(results({}), ACCURACY, 0.7)
    assert (claims[0].verdict, claims[1].verdict) == ("holds", "does not hold")
    assert claims[0].figures == "20.0% right at margin 0, 90.0% at 4; none of 2 steps falls by more than chance"
    # 40 of 100 after 60 of 100: z = -0.2 / sqrt(0.5 * 0.5 * 0.02) = -2.83, no chance; after 45 of 100 it is -0.71.
    for before, expected in ((0.6, "does not hold"), (0.45, "holds")):
        rows = (("0", 100, 0.2), ("1", 100, before), ("2", 100, 0.4))
        falling = Table("accuracy", "Accuracy", ACCURACY.columns, rows)
        assert check_claims(results({}), falling, 0.9)[0].verdict == expected
    empty = Table("accuracy", "Accuracy", ACCURACY.columns, (("0", 0, None),))
    assert check_claims(results({}), empty, 0.9)[0].verdict == "not measured"
