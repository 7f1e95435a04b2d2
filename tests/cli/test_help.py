"""Every help text stands alone: a sentence in the field's words that says what an option holds, and its default."""

import re
import warnings

import pytest
import tyro
from fake_runs import fake_run
from tyro.extras import get_parser

from skillscape import cli
from skillscape.backbones import registry as backbones
from skillscape.cli import main
from skillscape.experiments.paper import registry as experiments
from skillscape.objectives import trainable

ENVS = ("maze/square_a", "walker", "maze-pixels/square_a")
COMMANDS = tuple(line.split()[0] for line in cli.USAGE.split("\n\n")[2].splitlines())

FRAGMENT = re.compile(
    r"(Of|Likewise|That|Those|These|This|As|The same|Ditto|It|They|Them|Their|Its|Such|Also|And|Or|But|With it|What"
    r"|Which|Where|How)\b"
)
"""Beginnings that lean on a neighbour, or name no quantity."""
PRIVATE = re.compile(
    r"\b(films?|filmed|pictures?|seen|lent|lends?|told|tells?|telling|restrain\w*|strain|judg\w*|eyes?|outlines?|pays?"
    r"|paid|earn\w*|notes|teach\w*|taught|lasting|rewarded for|by chance|at chance|going on|goes on|stands|said again"
    r"|young|old|misfit|centred|beside)\b",
    re.IGNORECASE,
)
"""Words of no paper: each has a term of art (video, pixel, predict, penalty, reward, resume, …)."""


@pytest.fixture
def parser_of(monkeypatch):
    """The parser of a command line, built in this process and asked for nothing."""

    def build(*arguments):
        built = []

        def intercepted(kind, *, args, **settings):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                built.append(get_parser(kind, **settings))
            raise SystemExit(0)

        monkeypatch.setattr(tyro, "cli", intercepted)
        with pytest.raises(SystemExit):
            main([*arguments, "--help"])
        return built[0]

    return build


def faults(parser):
    """Every option whose help does not stand alone, with the reason."""
    for action in parser._actions:
        name = "/".join(action.option_strings) or action.dest
        if action.dest == "help":
            continue
        text, _, default = (action.help or "").partition(" (default: ")
        if reason := fault(text) or (action.option_strings and default_fault(text, default)):
            yield f"{name}: {reason}: {action.help}"
    if reason := fault(parser.description or ""):
        yield f"description: {reason}: {parser.description}"


def fault(text):
    if len(re.findall(r"\w+", text)) < 4:
        return "under four words"
    if FRAGMENT.match(text):
        return "a fragment"
    if not text.rstrip().endswith((".", ")")):
        return "no sentence"
    if match := PRIVATE.search(text):
        return f"private word {match[0]!r}"
    return None


def default_fault(text, default):
    """An option without a value says in its text what happens then."""
    if not default:
        return "no default"
    if default == "None)" and not re.search(r"\b(None|default|not given|optional|without it|empty)\b", text):
        return "no word on what happens without it"
    return None


def check(parser, backbone=False):
    """Refuse a parser with faults: of its backbone's options, or of all others."""
    if found := [text for text in faults(parser) if text.startswith("--backbone.") == backbone]:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("method", trainable())
def test_pretrain(method, env, parser_of):
    check(parser_of("pretrain", method, "--env", env))


@pytest.mark.parametrize("backbone", backbones())
def test_backbone(backbone, parser_of):
    check(parser_of("pretrain", "sd3", "--backbone", backbone), backbone=True)


@pytest.mark.parametrize("env", ENVS)
def test_train(env, parser_of):
    check(parser_of("train", "--env", env))


def test_finetune_without_a_run(parser_of):
    check(parser_of("finetune"))


@pytest.mark.parametrize("env", ENVS)
def test_finetune(env, parser_of, tmp_path):
    run = fake_run(tmp_path / "run", "diayn", env)
    (run / "snapshots" / "000000002000").mkdir(parents=True)
    check(parser_of("finetune", str(run)))


@pytest.mark.parametrize("env", ["maze/square_a", "walker"])
def test_control(env, parser_of, tmp_path):
    run = fake_run(tmp_path / "run", "diayn", env)
    check(parser_of("control", str(run)))


@pytest.mark.parametrize("name", experiments())
def test_reproduce(name, parser_of):
    check(parser_of("reproduce", name))


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"pretrain", "finetune", "train", "reproduce"}))
def test_every_other_command(command, parser_of):
    check(parser_of(command))


@pytest.mark.parametrize("command", [[], ["pretrain"], ["reproduce"], ["methods"], ["backbones"], ["envs"]])
def test_listings_use_the_words_of_the_field(command, capsys):
    main([*command, *([] if command[:1] in (["methods"], ["backbones"], ["envs"]) else ["--help"])])
    text = capsys.readouterr().out
    assert not PRIVATE.findall(text)
    assert all(len(line.split()) >= 4 for line in text.splitlines() if line)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Of each.", "under four words"),
        ("Of each of them, as above.", "a fragment"),
        ("Likewise for the other network.", "a fragment"),
        ("Number of films to make.", "private word 'films'"),
        ("Number of discrete skills", "no sentence"),
        ("Discount factor γ, in [0, 1].", None),
    ],
)
def test_a_fault_is_found(text, reason):
    assert fault(text) == reason


def test_a_missing_default_is_found():
    assert default_fault("Number of seeds to train.", "None)") == "no word on what happens without it"
    assert default_fault("Number of seeds; one if not given.", "None)") is None
    assert default_fault("Number of seeds to train.", "") == "no default"
