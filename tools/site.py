"""Gather what the site is built from in build/site-source: docs/, and every file of the repository that they link to.

A page links to files as they lie in the repository, so that links work there too. Here a file outside docs/ gets a
place below ``repository/``: documents and notebooks as pages, source as a page with the code, folders as a page with
what is in them, anything else as it is. Links are rewritten accordingly. Run as ``python tools/site.py``.
"""

import os
import re
import shutil
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "build" / "site-source"
OUTSIDE = "repository"
CODE = {".py": "python", ".toml": "toml", ".txt": "text"}
IMAGES = (".png",)
HIDDEN = "---\nsearch:\n  exclude: true\n---\n\n"
"""Front matter of pages that a search would find too often: the source."""
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")


class Site:
    """The pages and files gathered so far, by their place in the site's source."""

    def __init__(self) -> None:
        self._placed: dict[Path, str] = {}

    def place(self, path: Path) -> str:
        """The place of a file or folder of the repository; it is written on the first call."""
        path = path.resolve()
        if path not in self._placed:
            name = path.relative_to(ROOT).as_posix()
            if path.is_dir() and (path / "README.md").exists():
                self._placed[path] = self.place(path / "README.md")
            elif name.startswith("docs/"):
                self._placed[path] = name.removeprefix("docs/")
                self._write_page(path, path.read_text())
            else:
                # Not index.md, which navigation would take for the index of the section that lists it.
                name = re.sub(r"README\.md$", "overview.md", name)
                self._placed[path] = f"{OUTSIDE}/{name}" + _page_suffix(path)
                self._write_outside(path)
        return self._placed[path]

    def _write_outside(self, path: Path) -> None:
        target = TARGET / self._placed[path]
        target.parent.mkdir(parents=True, exist_ok=True)
        name = path.relative_to(ROOT).as_posix()
        if path.is_dir():
            self._write_page(path / "_", HIDDEN + _listing(path), target)
        elif path.suffix == ".md":
            self._write_page(path, path.read_text())
        elif path.suffix == ".ipynb":
            self._write_notebook(path, target)
        elif path.suffix in CODE or not path.suffix:
            fence = f'````{CODE.get(path.suffix, "text")} title="{name}" linenums="1"\n{path.read_text()}````\n'
            target.write_text(f"{HIDDEN}# {path.name}\n\n{fence}")
        else:
            shutil.copy(path, target)

    def _write_notebook(self, path: Path, target: Path) -> None:
        exporter = MarkdownExporter()
        text, resources = exporter.from_notebook_node(nbformat.read(path, as_version=4))
        folder = target.parent / f"{path.stem}_files"
        for name, data in resources["outputs"].items():
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
            text = text.replace(f"]({name})", f"](\0{path.stem}_files/{name})")
        self._write_page(path, text, target)

    def _write_page(self, path: Path, text: str, target: Path | None = None) -> None:
        """Write a page that stands at ``path`` in the repository, with links as the site has them."""
        target = target or TARGET / self._placed[path.resolve()]
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md" and path.suffix != ".ipynb" and path.name != "_":
            shutil.copy(path, target)
            return

        def rewritten(match: re.Match[str]) -> str:
            link = match.group(1)
            if link.startswith("\0"):
                return link[1:]
            name, mark, anchor = link.partition("#")
            if not name or re.match(r"\w+:", link):
                return link
            place = TARGET / self.place(path.parent / name)
            return Path(os.path.relpath(place, target.parent)).as_posix() + mark + anchor

        parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
        target.write_text("".join(part if part.startswith("```") else LINK.sub(rewritten, part) for part in parts))


def _page_suffix(path: Path) -> str:
    """What is added to the name of a file or folder to make it a page."""
    if path.is_dir():
        return "/index.md"
    return ".md" if path.suffix in CODE or path.suffix in (".ipynb", "") else ""


def _listing(folder: Path) -> str:
    """A page about a folder: its table if it has one, its pictures, its files."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith(("_", ".")))
    table = folder / "table.md"
    shown = (table.read_text() + "\n") if table.exists() else ""
    pictures = "".join(f"![{entry.stem}]({entry.name})\n\n" for entry in entries if entry.suffix in IMAGES)
    files = "".join(f"- [{entry.name}]({entry.name})\n" for entry in entries if entry.is_file() and entry != table)
    folders = "".join(f"- [{entry.name}/]({entry.name})\n" for entry in entries if entry.is_dir())
    return f"# {folder.relative_to(ROOT).as_posix()}\n\n{shown}{pictures}{folders}{files}"


def gather() -> None:
    """Write build/site-source anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    site = Site()
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.is_file():
            site.place(path)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "examples"):
        site.place(ROOT / name)


if __name__ == "__main__":
    gather()
