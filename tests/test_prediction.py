"""One task's answer."""

import json
from dataclasses import FrozenInstanceError

import pytest

from onepass.prediction import Prediction


def test_it_shows_its_answer_and_hides_the_other_scores():
    assert repr(Prediction("yes", 0.75, {"no": 0.25, "yes": 0.75})) == "Prediction(label='yes', score=0.75)"


def test_it_can_be_written_as_json():
    prediction = Prediction("yes", 0.75, {"no": 0.25, "yes": 0.75})
    assert json.loads(json.dumps(prediction.to_dict())) == {
        "label": "yes",
        "score": 0.75,
        "scores": {"no": 0.25, "yes": 0.75},
    }


def test_a_number_has_no_probability():
    assert Prediction(3.5).to_dict() == {"label": 3.5, "score": None, "scores": {}}


def test_it_cannot_be_changed_and_shares_nothing():
    first, second = Prediction("a"), Prediction("b")
    with pytest.raises(FrozenInstanceError):
        first.label = "c"  # type: ignore[misc]
    assert first.scores is not second.scores
