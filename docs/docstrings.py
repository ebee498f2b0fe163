"""Fills pages of the reference from dfgen itself, while Sphinx reads them.

- `dfgen.Sequence(manifest=, x=, y=)` in a line of its own becomes these arguments with their
  defaults, as the docstring describes them.
- A table of names becomes their docstrings, and that of commands their help.
"""

import inspect
import re
from functools import reduce

import typer.cli
import typer.main

import dfgen
import dfgen.explore
import dfgen.migrate
from dfgen.cli import app as commands

ARGUMENTS = re.compile(r"^`dfgen\.(\w+)\(([\w=, ]+)\)`$", re.MULTILINE)
NAMES = re.compile(r"^\| name \| purpose \|\n\|---\|---\|\n((?:\| `dfgen\..*\n)+)", re.MULTILINE)
COMMANDS = re.compile(r"^\| command \| purpose \|\n\|---\|---\|\n(\| `dfgen .*\n)+", re.MULTILINE)


def described(name):
    """Return argument -> text of a public name, from the section Args of its docstring."""
    text = inspect.getdoc(getattr(dfgen, name))
    args = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)[1]
    entries = re.findall(r"^    (\w+): (.*?)(?=^    \S|\Z)", args, re.MULTILINE | re.DOTALL)
    return {argument: " ".join(lines.split()) for argument, lines in entries}


def definitions(found):
    """Return some arguments of a public name as a definition list in Markdown."""
    texts, parameters = described(found[1]), inspect.signature(getattr(dfgen, found[1])).parameters
    lines = []
    for name in re.findall(r"\w+", found[2]):
        default = parameters[name].default
        shown = "" if name in ("manifest", "source") else f" = {default!r}"
        lines += [f"[`{name}{shown}`]{{#{name}}}", f": {texts[name]}", ""]
    return "\n".join(lines)


def directives(found):
    """Return autodoc's directives for the names of a table."""
    lines = []
    for name in re.findall(r"^\| `([\w.]+)`", found[1], re.MULTILINE):
        *path, last = name.split(".")
        holder = reduce(getattr, path[1:], dfgen)
        value = getattr(holder, last)
        if inspect.isclass(value):
            kind = "class"
        elif not callable(value):
            kind = "attribute"
        else:
            kind = "method" if inspect.isclass(holder) else "function"
        lines.append(f".. auto{kind}:: {name}\n")
    return "```{eval-rst}\n" + "".join(lines) + "```\n"


def help_of_commands(found):
    """Return the help of every command, as Markdown without a title."""
    command = typer.main.get_command(commands)
    context = command.context_class(command, info_name="dfgen")
    text = typer.cli.get_docs_for_click(obj=command, ctx=context, name="dfgen")
    for name in command.list_commands(context):  # that list cuts what they do after 45 letters
        first = inspect.cleandoc(command.get_command(context, name).help).split("\n")[0]
        link = f"* [`{name}`](#dfgen-{name}): {first}"
        text = re.sub(rf"^\* `{name}`: .*", link, text, flags=re.MULTILINE)
    return text.split("\n", 1)[1]


def fill_in(app, docname, source):
    """Replace lines of arguments, and tables of names and of commands."""
    text = ARGUMENTS.sub(definitions, source[0])
    source[0] = COMMANDS.sub(help_of_commands, NAMES.sub(directives, text))


def only_known(app, what, name, found, options, lines):
    """Leave out `**unknown`, and arguments that the page groups by purpose."""
    grouped = name in ("dfgen.Sequence", "dfgen.build_manifest")
    left_out = r"^Args:\n.*?(?=^\S)" if grouped else r"^    \*\*unknown: .*?\n"
    lines[:] = re.sub(left_out, "", "\n".join(lines), flags=re.M | re.S).split("\n")


def without_unknown(app, what, name, found, options, signature, returned):
    """Leave `**unknown` out of a signature: no argument is meant by it."""
    return signature and signature.replace(", **unknown", ""), returned


def setup(app):
    """Connect what is above."""
    app.connect("source-read", fill_in)
    app.connect("autodoc-process-docstring", only_known, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", without_unknown)
    return {"parallel_read_safe": True}
