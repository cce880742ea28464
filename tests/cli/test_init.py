"""onepass init --recipe: known sets."""


def test_a_recipe_is_written_from_its_folder(run, tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("thanks !\t15,17\tid1\nwhat\t27\tid2\n")
    arguments = ["init", "--recipe", "goemotions", "--from", tmp_path, "-o", tmp_path / "tasks.yaml"]
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert "6 rows" in result.stderr and "onepass check" in result.stderr
    assert run("check", tmp_path / "tasks.yaml").exit_code in (0, 1)
    assert run(*arguments).exit_code == 2
    assert run(*arguments, "--force").exit_code == 0


def test_recipes_are_listed(run):
    result = run("init", "--recipe", "?")
    assert result.exit_code == 0 and "glue" in result.stdout and "nhc" in result.stdout
    ends = {line.split()[0]: line.split()[-1] for line in result.stdout.splitlines()}
    assert [name for name, end in ends.items() if not end.endswith(".") and "http" not in end] == []  # whole sentences


def test_the_next_command_can_be_pasted_whatever_the_name(run, tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n" + "a good text,yes\na bad one,no\n" * 8)
    result = run("init", tmp_path / "a.csv", "-o", tmp_path / "my tasks.yaml")
    assert f"onepass check '{tmp_path / 'my tasks.yaml'}'" in result.stderr


def test_wrong_uses_are_told(run, tmp_path):
    for arguments, message in [
        (["--recipe", "glu"], "Did you mean 'glue'"),
        (["x.csv", "--recipe", "glue"], "not both"),
        (["x.csv", "--from", tmp_path], "--recipe"),
        ([], "--recipe"),
        (["--recipe", "snli", "--from", tmp_path, "-o", tmp_path / "t.yaml"], "snli_1.0_dev.jsonl"),
    ]:
        result = run("init", *arguments)
        assert result.exit_code == 2 and message in result.stderr, (arguments, result.stderr)


def test_data_are_never_replaced_by_their_task_file(run, tmp_path):
    data = tmp_path / "a.csv"
    data.write_text(rows := "text,label\n" + "a good text,yes\na bad one,no\n" * 8)
    result = run("init", data, "-o", data, "--force")
    assert result.exit_code == 2 and "is one of the data files" in result.stderr and data.read_text() == rows
    result = run("init", data, "-o", tmp_path, "--force")
    assert result.exit_code == 2 and f"{tmp_path} cannot be written" in result.stderr
    result = run("init", "--recipe", "goemotions", "--from", tmp_path, "-o", "-")
    assert result.exit_code == 2 and "name a file with -o" in result.stderr
