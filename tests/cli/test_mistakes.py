"""What the parser refuses: one sentence that names the option, what was given and what to do."""

import pytest

from skillscape.cli import main


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "pretrain sd3 --objective.exploration-rato 0.1",
            "There is no option --objective.exploration-rato here: did you mean --objective.exploration-ratio? "
            "`skillscape pretrain sd3 --help` lists the options.",
        ),
        (
            "pretrain sd3 --env walker --backbone.learning_rat=1",
            "There is no option --backbone.learning_rat here: did you mean --backbone.learning-rate? "
            "`skillscape pretrain sd3 --help` lists the options.",
        ),
        (
            "train --xyzzy",
            "There is no option --xyzzy here: settings depend on the environment, method and backbone. "
            "`skillscape train --help` lists the options.",
        ),
        (
            "pretrain sd3 maze/square_a",
            "'maze/square_a' belongs to no option. An environment is given as `--env maze/square_a`. "
            "`skillscape pretrain sd3 --help` lists the options.",
        ),
        ("methods surplus", "'surplus' belongs to no option. `skillscape methods --help` lists the options."),
        ("plot", "`skillscape plot` needs RUN; `skillscape plot --help` explains it."),
        ("export runs/x", "`skillscape export` needs OUT; `skillscape export --help` explains it."),
        (
            "pretrain sd3 --steps",
            "--steps has no value; give a whole number or None. `skillscape pretrain sd3 --help` explains it.",
        ),
        (
            "pretrain sd3 --steps many",
            "--steps takes a whole number or None: 'many' is not a whole number; write it as 250000, 250_000 or 2.5e5.",
        ),
        ("pretrain sd3 --seed 1.5", "--seed takes a whole number: '1.5' is not a whole number."),
        ("pretrain sd3 --objective.floor low", "--objective.floor takes a number or None: 'low' is not a number."),
        ("pretrain sd3 --backbone.hidden a b", "--backbone.hidden takes whole numbers: it cannot be 'a', 'b'."),
        (
            "pretrain sd3 --objective.bonus meen",
            "--objective.bonus cannot be 'meen': did you mean 'mean'? It takes own, mean, posterior.",
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_says_what_to_do(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    assert stop.value.code == 2
    assert capsys.readouterr() == ("", f"skillscape: {sentence}\n")
    assert not list(tmp_path.iterdir())


def test_a_file_in_place_of_a_run_is_not_a_folder(capsys, tmp_path):
    (tmp_path / "README.md").touch()
    with pytest.raises(SystemExit) as stop:
        main(["finetune", str(tmp_path / "README.md"), "--task", "reach"])
    assert stop.value.code == 2
    assert (
        "README.md is not a folder; give the folder that `skillscape pretrain --out` wrote." in capsys.readouterr().err
    )
