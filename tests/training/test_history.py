"""The line that is said of an evaluation."""

from onepass.training.history import history_record, spoken


def test_a_record_is_said_with_its_worst_task_and_its_loss() -> None:
    scores = {"topic": {"score": 80.0}, "tone": {"score": 60.0}}
    record = history_record("train", 1.5, {"topic": 0.25, "tone": 0.75}, scores, best=True)
    assert spoken(record, 1.5) == "train, epoch 1.5: mean 70.0, worst 60.0 (tone), loss 0.500, best so far"


def test_before_the_first_step_there_is_no_loss_to_tell() -> None:
    record = history_record("task 1 of 2", 0.0, {}, {"topic": {"score": 80.0}}, best=False)
    assert spoken(record, 0.0) == "task 1 of 2, epoch 0: mean 80.0, worst 80.0 (topic)"
