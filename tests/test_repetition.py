"""No two places of the source share more than ``MOST`` lines of code: read from the syntax, nothing is run."""

import ast
import io
import tokenize
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MOST = 12
"""Lines in a row that two places may share."""

LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


def code_lines(source: str) -> list[tuple[int, str]]:
    """Number and tokens of every line of code; imports, docstrings, comments and white space do not count."""
    ignored: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if text or isinstance(node, ast.Import | ast.ImportFrom):
            ignored.update(range(node.lineno, node.end_lineno + 1))
    lines = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT and token.start[0] not in ignored:
            lines[token.start[0]].append(token.string)
    return [(number, " ".join(lines[number])) for number in sorted(lines)]


def repetitions(sources: dict[str, str], most: int = MOST) -> list[str]:
    """Every pair of places that share more than ``most`` lines of code in a row, as text: a.py:1-13 = b.py:20-32."""
    files = {path: code_lines(source) for path, source in sources.items()}
    places = defaultdict(list)
    for path, lines in files.items():
        for start in range(len(lines) - most):
            places[tuple(text for _, text in lines[start : start + most + 1])].append((path, start))
    found = []
    for alike in places.values():
        for (path, start), (other, other_start) in combinations(alike, 2):
            lines, other_lines = files[path], files[other]
            # Of a long run, whose windows overlap, only the first is told; and no place repeats itself.
            if start and other_start and lines[start - 1][1] == other_lines[other_start - 1][1]:
                continue
            if path == other and other_start - start <= most:
                continue
            shared = 0
            for (_, text), (_, other_text) in zip(lines[start:], other_lines[other_start:], strict=False):
                if text != other_text:
                    break
                shared += 1
            ends = lines[start + shared - 1][0], other_lines[other_start + shared - 1][0]
            found.append(f"{path}:{lines[start][0]}-{ends[0]} = {other}:{other_lines[other_start][0]}-{ends[1]}")
    return found


def test_no_two_places_share_more_than_twelve_lines():
    sources = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    assert len(sources) > 100
    assert repetitions(sources) == []


def statements(number: int) -> str:
    return "".join(f"value_{index} = first({index}) + 1\n" for index in range(number))


def test_two_files_with_a_long_run_are_found():
    first, second = f"a = 1\n{statements(13)}b = 2\n", f"c = 3\nd = 4\n{statements(13)}"
    assert repetitions({"a.py": first, "b.py": second}) == ["a.py:2-14 = b.py:3-15"]


def test_as_many_lines_as_are_allowed_are_not_found():
    assert repetitions({"a.py": f"a = 1\n{statements(12)}b = 2\n", "b.py": f"c = 3\n{statements(12)}"}) == []


def test_one_file_that_repeats_itself_is_found_once_per_pair():
    assert repetitions({"a.py": f"{statements(15)}other = 1\n{statements(15)}"}) == ["a.py:1-15 = a.py:17-31"]


def test_a_run_is_found_however_it_is_laid_out_and_commented():
    lines = statements(13).splitlines()
    commented = "\n\n".join(f"{line.replace(' ', '  ')}  # comment {index}" for index, line in enumerate(lines))
    indented = "def f():\n" + "".join(f'    {line}\n    """Field {index}."""\n' for index, line in enumerate(lines))
    assert repetitions({"a.py": f"{commented}\n", "b.py": indented}) == ["a.py:1-25 = b.py:2-26"]


@pytest.mark.parametrize(
    "line", ["import module_{}\n", "from package import (\n    name_{},\n)\n", '"""Text {}."""\n', "# {}\n"]
)
def test_imports_docstrings_and_comments_are_no_repetition(line):
    text = "".join(line.format(index) for index in range(20))
    assert repetitions({"a.py": text, "b.py": text}) == []
