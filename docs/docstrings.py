"""Fill pages of the reference from dfgen itself, while Sphinx reads them.

- A line `dfgen.Sequence(manifest=, x=, y=)` becomes these arguments with their defaults and docs.
- A block of `{names}` becomes the docstrings of these names, and one of `{commands}` their help.
"""

import inspect
import re
from functools import reduce

import typer.cli
import typer.main

import dfgen
import dfgen.explore
import dfgen.migrate
from dfgen.cli import app

ARGUMENTS = re.compile(r"^`dfgen\.(\w+)\(([\w=, ]+)\)`$", re.MULTILINE)
NAMES = re.compile(r"^```\{names\}\n(.+?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```\{commands\}\n.+?^```$", re.MULTILINE | re.DOTALL)


def argument_docs(name):
    """Return argument -> text of a public name, from the section Args of its docstring."""
    text = inspect.getdoc(getattr(dfgen, name))
    args = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)[1]
    entries = re.findall(r"^    (\w+): (.*?)(?=^    \S|\Z)", args, re.MULTILINE | re.DOTALL)
    return {argument: " ".join(lines.split()) for argument, lines in entries}


def definitions(match):
    """Return some arguments of a public name as a definition list in Markdown."""
    docs, lines = argument_docs(match[1]), []
    parameters = inspect.signature(getattr(dfgen, match[1])).parameters
    for name in re.findall(r"\w+", match[2]):
        default = parameters[name].default
        suffix = "" if name in ("manifest", "source") else f" = {default!r}"
        lines += [f"[`{name}{suffix}`]{{#{name}}}", f": {docs[name]}", ""]
    return "\n".join(lines)


def directives(match):
    """Return autodoc's directives for a block of names."""
    lines = []
    for name in match[1].split():
        *path, last = name.split(".")
        holder = reduce(getattr, path[1:], dfgen)
        value = getattr(holder, last)
        if inspect.isclass(value):
            kind = "exception" if issubclass(value, Exception) else "class"
        elif not callable(value):
            kind = "attribute"
        else:
            kind = "method" if inspect.isclass(holder) else "function"
        lines.append(f".. auto{kind}:: {name}\n")
    return "```{eval-rst}\n" + "".join(lines) + "```\n"


def command_help(match):
    """Return the help of every command, as Markdown without a title, one level deeper."""
    command = typer.main.get_command(app)
    context = command.context_class(command, info_name="dfgen")
    text = typer.cli.get_docs_for_click(obj=command, ctx=context, name="dfgen")
    for name in command.list_commands(context):  # the list cuts descriptions after 45 letters
        first = inspect.cleandoc(command.get_command(context, name).help).split("\n")[0]
        link = f"* [`{name}`](#dfgen-{name}): {first}"
        text = re.sub(rf"^\* `{name}`: .*", link, text, flags=re.MULTILINE)
    return re.sub("^##", "###", text.split("\n", 1)[1], flags=re.MULTILINE)


def fill_in(app, docname, source):
    """Replace lines of arguments, and blocks of names and of commands."""
    text = ARGUMENTS.sub(definitions, source[0])
    source[0] = COMMANDS.sub(command_help, NAMES.sub(directives, text))


def leave_out_arguments(app, what, name, value, options, lines):
    """Leave out `**unknown`, and arguments that the page groups by purpose."""
    grouped = name in ("dfgen.Sequence", "dfgen.build_manifest")
    left_out = r"^Args:\n.*?(?=^\S)" if grouped else r"^    \*\*unknown: .*?\n"
    lines[:] = re.sub(left_out, "", "\n".join(lines), flags=re.M | re.S).split("\n")


def leave_out_unknown(app, what, name, value, options, signature, returns):
    """Leave `**unknown` out of a signature, because it only serves error messages."""
    return signature and signature.replace(", **unknown", ""), returns


def setup(app):
    """Connect the functions above to Sphinx."""
    app.connect("source-read", fill_in)
    app.connect("autodoc-process-docstring", leave_out_arguments, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", leave_out_unknown)
    return {"parallel_read_safe": True}
