"""Learning from trained models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import onepass
from onepass.cached import cache_folder
from onepass.errors import ConfigError
from onepass.model import Model
from onepass.training import device, distillation, run
from onepass.training.distillation import Teaching, teach
from onepass.training.loop import Trainer
from onepass.training.objective import Objective
from onepass.training.options import DistillOptions, check_train, train_options

MakeTrainer = Callable[..., Trainer]
TOPIC, TONE, SAME = 0, 1, 2
FAST = ("head_rate=0.005", "token_rate=0.005", "encoder_rate=0.005", "average=0", "warmup=0", "clip=0")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def teaching_of(trainer: Trainer, taught: tuple[int, ...] = (TOPIC, TONE), **options: Any) -> Teaching:
    """Teachers' logits that are 10 * task + a text's number, in every output."""
    chosen = DistillOptions(teachers="nobody", **options)
    starts = np.cumsum([0, *(len(item.train) for item in trainer.sets)])
    logits: list[Any] = []
    for task, item in enumerate(trainer.sets):
        first, last = (0, starts[-1]) if chosen.all_texts else (starts[task], starts[task + 1])
        outputs = trainer.model.kinds[task].outputs(item.task)
        values = 1000 * task + np.arange(first, last, dtype=np.float32)
        logits.append(np.repeat(values[:, None], outputs, 1) if task in taught else None)
    return Teaching(trainer.sets, logits, chosen)


def test_a_labelled_row_learns_from_both_and_one_without_teacher_from_its_label(make_trainer: MakeTrainer):
    lesson = teaching_of(make_trainer(), weight=0.25).lesson([(TOPIC, 3), (SAME, 1)], [0, 1, 2], progress=0.5)
    assert lesson.asked.tolist() == [[TOPIC], [SAME]]
    assert lesson.weights.tolist() == [[0.25], [0.0]]


def test_annealing_takes_the_teachers_part_to_nothing(make_trainer: MakeTrainer):
    teaching = teaching_of(make_trainer(), weight=0.8, anneal=True)
    parts = [teaching.lesson([(TOPIC, 0)], [0, 1, 2], p).weights[0, 0] for p in (0.0, 0.5, 1.0)]
    assert parts == pytest.approx([0.8, 0.4, 0.0])


def test_with_all_texts_a_text_is_also_asked_other_tasks_that_can_read_it(make_trainer: MakeTrainer):
    teaching = teaching_of(make_trainer(), (TOPIC, TONE, SAME), weight=0.5, all_texts=True, others_weight=0.6)
    lesson = teaching.lesson([(TOPIC, 3), (TONE, 2), (SAME, 1)], [0, 1, 2], 0.0)
    # A pair of texts can be asked no task on single texts: its own task fills the place, without weight.
    assert lesson.asked.tolist() == [[TOPIC, TONE], [TONE, TOPIC], [SAME, SAME]]
    assert lesson.weights == pytest.approx(np.array([[0.5, 0.6], [0.5, 0.6], [0.5, 0.0]]))
    assert lesson.texts.tolist() == [3, 24 + 2, 24 + 22 + 1]


def test_a_stage_of_one_task_asks_no_other(make_trainer: MakeTrainer):
    teaching = teaching_of(make_trainer(), all_texts=True)
    assert teaching.lesson([(TOPIC, 3)], [TOPIC], 0.0).asked.tolist() == [[TOPIC]]


@pytest.mark.parametrize("all_texts", [False, True])
def test_the_answers_are_those_to_the_texts_asked(make_trainer: MakeTrainer, all_texts: bool):
    teaching = teaching_of(make_trainer(), all_texts=all_texts)
    assert teaching.answers(np.array([TONE, TONE]), np.array([24, 30])).tolist() == [[1024.0], [1030.0]]
    if all_texts:
        assert teaching.answers(np.array([TONE, TONE]), np.array([0, 60])).tolist() == [[1000.0], [1060.0]]


@pytest.mark.parametrize("all_texts", [False, True])
def test_a_model_that_says_what_its_teachers_say_has_nothing_to_learn(make_trainer: MakeTrainer, all_texts: bool):
    trainer = make_trainer(dropout=0.0)
    model = trainer.model.eval()
    rows = [(TOPIC, 0), (TONE, 1), (SAME, 2), (TOPIC, 4)]
    teaching = teaching_of(trainer, (TOPIC, TONE, SAME), weight=1.0, all_texts=all_texts)
    lesson = teaching.lesson(rows, [0, 1, 2], 0.0)
    batch = onepass.encoder.batch.Batch.of([trainer.sets[task].train.sequence(row) for task, row in rows])
    for group in model(batch, lesson.asked):
        for ask, values in zip(group.asks, group.logits.detach().numpy(), strict=True):
            task, text = int(lesson.asked.flatten()[ask]), int(lesson.texts[ask // lesson.asked.shape[1]])
            known = teaching.logits[task]
            assert known is not None
            known[text - (0 if all_texts else teaching.starts[task])] = values
    targets = [trainer.targets[task][row] for task, row in rows]
    objective = Objective(model, None, trainer.options, teaching)
    assert objective(batch, lesson.asked, targets, lesson).abs().max() < 1e-5
    teaching.logits[TOPIC][:] += np.array([0.0, 3.0], np.float32)  # type: ignore[index]
    losses = objective(batch, lesson.asked, targets, lesson)
    assert (losses > 0.1).tolist() == [True, all_texts, False, True]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """A model that learned its labels."""
    folder = tmp_path_factory.mktemp("teacher") / "model"
    run.train(model.with_name("tasks.yaml"), folder, overrides=[*FAST, "epochs=12"], progress=False)
    return folder


def test_a_student_learns_its_teachers_answers_where_its_labels_say_nothing(news: Path, teacher: Path):
    topics = news.with_name("topic.csv")
    rows = topics.read_text().splitlines()
    mixed = [f"{row.partition(',')[0]},{'sport' if n % 4 < 2 else 'politics'}" for n, row in enumerate(rows[1:])]
    topics.write_text("\n".join([rows[0], *mixed]) + "\n")
    distill = f"train.distill={{teachers: {teacher}, weight: 1.0, all_texts: true}}"
    model = run.train(news, overrides=[*FAST, "epochs=12", distill], progress=False)
    found = model.predict(["late goal wins", "senate vote"], tasks=["topic"])
    assert [answer["topic"].label for answer in found] == ["sport", "politics"]
    assert model.training_record["options"]["distill"]["weight"] == 1.0


def asked_of(trainer: Trainer, news: Path, teacher: Path | list[str], **options: Any) -> Teaching:
    file = onepass.read_task_file(news)
    chosen = DistillOptions(teachers=teacher if isinstance(teacher, list) else str(teacher), **options)
    return teach(file, trainer.sets, trainer.model.tokenizer, chosen, "cpu")


def test_teachers_compute_in_what_the_training_computes_in(
    make_trainer: MakeTrainer, news: Path, teacher: Path, monkeypatch: pytest.MonkeyPatch
):
    found: list[Teaching] = []
    with monkeypatch.context() as patched:
        patched.setattr(run, "teach", lambda *given, **named: found.append(teach(*given, **named)) or found[-1])
        patched.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
        patched.setattr(device, "WIDE", 1)
        for precision in ("auto", "fp32"):
            chosen = [f"precision={precision}", f"train.distill={{teachers: {teacher}}}"]
            run.train(news, overrides=[*FAST, *chosen], progress=False)
    halves, whole = [teaching.logits[TOPIC] for teaching in found]
    trainer = make_trainer()
    expected = asked_of(trainer, news, teacher, all_texts=True).logits[TOPIC]
    assert expected is not None and whole is not None and halves is not None
    assert whole == pytest.approx(expected[: len(whole)], abs=1e-5)
    assert 1e-4 < np.abs(halves - whole).max() < 0.1


def test_teachers_are_asked_once_and_their_answers_kept(
    make_trainer: MakeTrainer, news: Path, teacher: Path, monkeypatch: pytest.MonkeyPatch
):
    trainer = make_trainer()
    first = asked_of(trainer, news, teacher, all_texts=True)
    monkeypatch.setattr(Model, "load", lambda *_: pytest.fail("the teacher was loaded again"))
    again = asked_of(trainer, news, teacher, all_texts=True)
    assert all(np.array_equal(a, b) for a, b in zip(first.logits, again.logits, strict=True))  # type: ignore[arg-type]
    assert [known.shape for known in again.logits] == [(68, 2), (68, 1), (68, 2)]  # type: ignore[union-attr]


def test_answers_do_not_depend_on_the_batch_and_are_the_teachers_own(
    make_trainer: MakeTrainer, news: Path, teacher: Path
):
    trainer = make_trainer()
    every, own = asked_of(trainer, news, teacher, all_texts=True), asked_of(trainer, news, teacher)
    for task in range(3):
        part = slice(every.starts[task], every.starts[task + 1])
        assert np.allclose(every.logits[task][part], own.logits[task], atol=1e-5)  # type: ignore[index,arg-type]
    model = onepass.load(teacher)
    predicted = model.kinds[TOPIC].answers(model.tasks[TOPIC], own.logits[TOPIC])  # type: ignore[arg-type]
    assert (predicted == trainer.sets[TOPIC].train.targets).mean() > 0.9


def test_of_several_teachers_the_mean_is_learned(make_trainer: MakeTrainer, news: Path, teacher: Path):
    trainer = make_trainer()
    one, two = asked_of(trainer, news, teacher), asked_of(trainer, news, [str(teacher), str(teacher)])
    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(one.logits, two.logits, strict=True))  # type: ignore[arg-type]


def test_a_teacher_reads_with_its_own_tokenizer(make_trainer: MakeTrainer, news: Path, teacher: Path):
    topics = news.with_name("topic.csv")
    topics.write_text(topics.read_text().replace(" wins,", " wins it is good,"))
    trainer = make_trainer()
    own = asked_of(trainer, news, teacher)
    short = make_trainer(max_length=8)  # its texts are cut, the teacher's are not
    assert short.sets[TOPIC].train.truncated and not trainer.sets[TOPIC].train.truncated
    other = asked_of(short, news, teacher)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(own.logits, other.logits, strict=True))  # type: ignore[arg-type]


def test_a_row_that_the_pupils_tokenizer_leaves_out_moves_no_answer(
    make_trainer: MakeTrainer, news: Path, teacher: Path
):
    own = asked_of(make_trainer(), news, teacher, all_texts=True)
    pupil = make_trainer(max_length=8)
    pupil.sets[TOPIC].train = pupil.sets[TOPIC].train.take(np.delete(np.arange(24), 3))
    found = asked_of(pupil, news, teacher, all_texts=True)
    for one, other in zip(own.logits, found.logits, strict=True):
        assert np.allclose(np.delete(one, 3, 0), other, atol=1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize("all_texts", [False, True])
def test_nothing_is_learned_of_a_row_that_the_teachers_tokenizer_leaves_out(
    make_trainer: MakeTrainer, news: Path, teacher: Path, monkeypatch: pytest.MonkeyPatch, all_texts: bool
):
    def read_fewer(*arguments: Any) -> list[Any]:
        sets = read(*arguments)
        sets[TOPIC].train = sets[TOPIC].train.take(np.delete(np.arange(24), 3))
        return sets

    pupil = make_trainer(max_length=8)
    whole = asked_of(pupil, news, teacher, all_texts=all_texts)
    read = distillation.read_sets
    monkeypatch.setattr(distillation, "read_sets", read_fewer)
    found = asked_of(pupil, news, teacher, all_texts=all_texts)
    lesson = found.lesson([(TOPIC, 3), (TOPIC, 4), (TONE, 3)], [0, 1, 2], 0.0)
    assert lesson.weights[:, 0].tolist() == [0.0, 0.5, 0.5]
    if all_texts:
        assert lesson.weights[:, 1].tolist() == [0.0, 1.0, 1.0]
    rows = np.array([2, 4, 23])
    assert np.allclose(found.answers(np.full(3, TOPIC), rows), whole.answers(np.full(3, TOPIC), rows), atol=1e-5)
    others = np.array([24, 30])
    assert np.allclose(found.answers(np.full(2, TONE), others), whole.answers(np.full(2, TONE), others), atol=1e-5)


def test_of_several_teachers_those_count_that_have_an_answer(
    make_trainer: MakeTrainer, news: Path, teacher: Path, monkeypatch: pytest.MonkeyPatch
):
    def answers_but_one(*arguments: Any) -> dict[int, Any]:
        found = asked(*arguments)
        found[TOPIC][3 + len(calls)] = np.nan
        calls.append(arguments)
        return found

    trainer, calls = make_trainer(), []  # type: ignore[var-annotated]
    asked = distillation.answers_of
    one = asked_of(trainer, news, teacher).logits[TOPIC]
    monkeypatch.setattr(distillation, "kept_answers", answers_but_one)
    two = asked_of(trainer, news, [str(teacher), str(teacher)])
    assert np.allclose(one, two.logits[TOPIC], atol=1e-5)  # type: ignore[arg-type]
    assert two.answered[:24, TOPIC].all()


def test_what_is_kept_of_a_teacher_depends_on_what_its_texts_may_be_asked(
    make_trainer: MakeTrainer, news: Path, teacher: Path
):
    trainer = make_trainer()
    item = trainer.sets[TONE]
    plain = item.task.model_copy(update={"name": "a task that no teacher knows"})
    item.task = plain.model_copy(update={"options": {"windows": 4}})
    assert not asked_of(trainer, news, teacher, all_texts=True).answered[24:46, TOPIC].any()
    item.task = plain
    found = asked_of(trainer, news, teacher, all_texts=True)
    assert found.answered[24:46, TOPIC].all() and np.abs(found.logits[TOPIC][24:46]).min() > 0  # type: ignore[index]


def test_labels_in_another_order_are_put_in_order_and_others_refused(
    make_trainer: MakeTrainer, news: Path, teacher: Path
):
    trainer = make_trainer()
    straight = asked_of(trainer, news, teacher).logits[TOPIC]
    item = trainer.sets[TOPIC]
    item.task = item.task.model_copy(update={"labels": item.task.labels[::-1]})
    turned = asked_of(trainer, news, teacher).logits[TOPIC]
    assert straight is not None and turned is not None
    assert np.array_equal(straight, turned[:, ::-1])
    item.task = item.task.model_copy(update={"labels": ("sport", "weather")})
    with pytest.raises(ConfigError, match="'topic': it has the labels sport, weather, there it has politics, sport"):
        asked_of(trainer, news, teacher)


def test_a_teacher_that_knows_the_task_as_another_kind_is_refused(make_trainer: MakeTrainer, news: Path, teacher: Path):
    trainer = make_trainer()
    for number, kind in ((TOPIC, "multilabel"), (SAME, "regression")):
        item = trainer.sets[number]
        item.task = item.task.model_copy(update={"kind": kind})
    with pytest.raises(ConfigError) as error:
        asked_of(trainer, news, teacher)
    assert "task 'topic': it is classification there, multilabel here." in str(error.value)
    assert "task 'same': it is classification there, regression here." in str(error.value)


def test_a_teacher_of_other_tasks_is_refused(make_trainer: MakeTrainer, news: Path, teacher: Path):
    trainer = make_trainer()
    for item in trainer.sets:
        item.task = item.task.model_copy(update={"name": f"my-{item.task.name}"})
    with pytest.raises(ConfigError, match="knows none of the tasks my-topic, my-tone, my-same; it has topic"):
        asked_of(trainer, news, teacher)


def test_faults_are_found_before_anything_is_read(news: Path, encoder: Path, tmp_path: Path):
    teachers = f"[{tmp_path}/nothing, {tmp_path}, {encoder}]"
    overrides = [f"train.distill.teachers={teachers}", "train.distill.weight=2", "train.distill.temprature=2"]
    with pytest.raises(ConfigError) as error:
        run.train(news, overrides=overrides, progress=False)
    for part in (
        f"train.distill.teachers: There is no model folder {tmp_path}/nothing",
        f"train.distill.teachers: {tmp_path} is no model folder",
        f"train.distill.teachers: {encoder / 'config.json'} does not name a format",
        "train.distill.weight is 2",
        "Did you mean 'temperature'",
    ):
        assert part in str(error.value)
    file = onepass.read_task_file(news, ["train.distill.weight=0.5"])
    assert check_train(file) == ["train.distill has no teachers. Give it, as in {teachers: ...}."]


def test_a_teachers_folder_starts_at_the_task_file_or_at_the_working_folder(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = news.read_text().replace("train: {epochs: 1,", "train: {distill: {teachers: [a, b]}, epochs: 1,")
    news.write_text(text)
    monkeypatch.chdir("/")
    assert onepass.read_task_file(news).train["distill"]["teachers"] == [str(tmp_path / "a"), str(tmp_path / "b")]
    file = onepass.read_task_file(news, ["train.distill.teachers=c"])
    assert file.train["distill"]["teachers"] == "/c"
    assert train_options(file.train).distill == DistillOptions(teachers="/c")


def test_the_draw_of_other_tasks_goes_on_where_torch_stands(make_trainer: MakeTrainer):
    teaching = teaching_of(make_trainer(), (TOPIC, TONE, SAME), all_texts=True)
    teaching.others[:] = ~np.eye(3, dtype=bool)
    teaching.options = DistillOptions(teachers="nobody", all_texts=True, others=1)
    state = torch.get_rng_state()
    first = [teaching.lesson([(TOPIC, 0)] * 8, [0, 1, 2], 0.0).asked.tolist() for _ in range(2)]
    torch.set_rng_state(state)
    again = [teaching.lesson([(TOPIC, 0)] * 8, [0, 1, 2], 0.0).asked.tolist() for _ in range(2)]
    assert first == again and first[0] != first[1]


def test_a_cache_that_cannot_be_written_does_not_stop_a_training(
    make_trainer: MakeTrainer, news: Path, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cache_folder("teachers").parts[-2:] == ("onepass", "teachers")
    assert asked_of(make_trainer(), news, teacher).logits[TOPIC] is not None
