"""The parts' judges, with made-up measurements of a GPU: good ones, and ones that falsify."""

from importlib import import_module

import pytest

from benchmarks.gpu.part import ORDER, load_part, part_names

PARTS = [name for name in part_names() if load_part(name).claims]
FIGURES = {name: import_module(f"gpu_kit.figures.{name.replace('-', '_')}") for name in PARTS}


def verdicts(name: str, measured: dict) -> dict[str, bool | None]:
    outcomes = load_part(name).judge(measured)
    assert all(outcome.evidence for outcome in outcomes.values())
    return {claim: outcome.holds for claim, outcome in outcomes.items()}


@pytest.mark.parametrize("name", PARTS)
def test_every_claim_holds_for_a_good_gpu_can_be_falsified_and_needs_a_measurement(name):
    claims = [claim.name for claim in load_part(name).claims]
    assert verdicts(name, FIGURES[name].GOOD) == dict.fromkeys(claims, True)
    assert FIGURES[name].FALSIFIED.keys() == set(claims)
    assert set(verdicts(name, {}).values()) <= {None}  # of a part that was killed immediately


def test_every_slice_has_its_place_in_the_order():
    slices = [f"{name}:{one}" for name in part_names() for one in load_part(name).slices]
    assert sorted(ORDER) == sorted(slices)


def cases(*, falsified: bool):
    for name in PARTS:
        made = FIGURES[name].FALSIFIED if falsified else FIGURES[name].UNJUDGED
        for claim, bad in made.items():
            for number, changes in enumerate(bad if falsified else [bad]):
                yield pytest.param(name, claim, changes, id=f"{name}-{claim}-{number}")


@pytest.mark.parametrize(("name", "claim", "changes"), [*cases(falsified=True)])
def test_a_bad_measurement_falsifies_its_claim(name, claim, changes):
    assert verdicts(name, FIGURES[name].GOOD | changes)[claim] is False


@pytest.mark.parametrize(("name", "claim", "changes"), [*cases(falsified=False)])
def test_a_measurement_that_is_missing_or_noisy_judges_nothing(name, claim, changes):
    assert verdicts(name, FIGURES[name].GOOD | changes)[claim] is None
