"""Measure the English of the documentation: `python tests/english.py [FILE ...]`.

Prints, for each file, its sentences that begin with What, Of, Where or Whatever, and how many hold
a semicolon or a colon. Pages, notebooks and docstrings are prose; code, tables and lists of
arguments' types are not. `tests/house/test_english.py` holds the shares of the whole, and that of
the errors, warnings and help of commands.
"""

import ast
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
INVERTED = re.compile(r"(What|Of|Where|Whatever)\b(?! (?:is|are|does|do|happens|if)\b[^.]*\?)")
JOINED = re.compile(r"[;:](?=\s)")
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
END = re.compile(r"(?<=[.!?])[*_`\")]*\s+(?=[A-Z`*\[\"(_])")


@dataclass(frozen=True)
class Prose:
    """The sentences of a file."""

    path: Path
    sentences: tuple[str, ...]

    @property
    def inverted(self) -> list[str]:
        """The sentences that begin with What, Of, Where or Whatever, questions aside."""
        return [text for text in self.sentences if INVERTED.match(text.lstrip('*_`("> '))]

    @property
    def joined(self) -> list[str]:
        """The sentences that hold a semicolon or a colon."""
        return [text for text in self.sentences if JOINED.search(text.rstrip(":"))]


def paragraphs_of_markdown(text: str) -> list[str]:
    """Return the paragraphs, headings and list items of a page, without code and tables."""
    text = re.sub(r"<!--.*?-->", "", FENCE.sub("", text), flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)|(?<=\n)(?=#)", text)
    blocks = [re.sub(r"^\s*(?:[-*+]|\d+\.|#+|>|:)\s+", "", block) for block in blocks]
    return [
        block for block in blocks if block.strip() and not block.lstrip().startswith(("|", ":::"))
    ]


def paragraphs_of_python(text: str) -> list[str]:
    """Return the paragraphs of every docstring of a module, without its code."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and (docstring := ast.get_docstring(node)):
            docstring = re.sub(r"::\n(\n|    .*\n?)+", ".\n\n", docstring + "\n")
            docstring = re.sub(
                r"^\s*(>>>|\.\.\.).*\n(\s*[^\s].*\n)*", "", docstring, flags=re.MULTILINE
            )
            docstring = re.sub(
                r"^(?:Args|Raises|Returns|Attributes|Yields|Example):\n",
                "\n",
                docstring,
                flags=re.MULTILINE,
            )
            docstring = re.sub(r"^    \*{0,2}[\w, .*]+: ", "\n", docstring, flags=re.MULTILINE)
            found += paragraphs_of_markdown(docstring)
    return found


def paragraphs_of_notebook(text: str) -> list[str]:
    """Return the paragraphs of a notebook's pages of text."""
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return [block for cell in cells for block in paragraphs_of_markdown("".join(cell["source"]))]


def text_of(node: ast.AST) -> str:
    """Return a string as it is written, with X for each of its holes."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "X"


def messages_of_python(text: str) -> list[str]:
    """Return the strings of a module of four words or more, without its docstrings.

    They are errors, warnings, the help of commands, and what commands print.
    """
    found, left = [], [ast.parse(text)]
    while left:
        node = left.pop()
        if isinstance(node, ast.Constant | ast.JoinedStr):
            found.append(text_of(node))
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            left += ast.iter_child_nodes(node)
    return [message for message in found if len(message.split()) > 3]


READERS = {
    ".md": paragraphs_of_markdown,
    ".py": paragraphs_of_python,
    ".ipynb": paragraphs_of_notebook,
}


def prose_of(path: Path, read: Callable[[str], list[str]] | None = None) -> Prose:
    """Return the sentences of a page, a module's docstrings or a notebook, or what `read` finds."""
    blocks = (read or READERS[path.suffix])(path.read_text(encoding="utf-8"))
    texts = [text for block in blocks for text in END.split(" ".join(block.split()))]
    return Prose(path, tuple(text for text in texts if len(text.split()) > 2))


def words_of(path: Path) -> int:
    """Return the number of words of a page, without its code."""
    return len(" ".join(paragraphs_of_markdown(path.read_text(encoding="utf-8"))).split())


def pages() -> list[Path]:
    """Return the pages that a reader meets, README first."""
    own = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    docs = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("manifests/*.md"), *ROOT.glob("benchmarks/*.md")]
    return own + sorted(page for page in docs if "_build" not in page.parts)


def main(names: list[str]) -> None:
    """Print what each file lacks, then the shares of all."""
    paths = [Path(name) for name in names] or [*pages(), *sorted(ROOT.glob("dfgen/**/*.py"))]
    proses = [prose_of(path) for path in paths]
    for prose in proses:
        for text in prose.inverted:
            print(f"{prose.path}: {text[:100]}")
    total = sum(len(prose.sentences) for prose in proses) or 1
    for share, name in (
        (sum(len(p.inverted) for p in proses), "begin with What, Of, Where, Whatever"),
        (sum(len(p.joined) for p in proses), "hold a semicolon or a colon"),
    ):
        print(f"{share / total:.1%} of {total} sentences {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
