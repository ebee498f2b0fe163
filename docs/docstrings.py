"""What pages of the reference show of dfgen itself, filled in while Sphinx reads them.

- `<!-- arguments: dfgen.Sequence | manifest x y -->` becomes these arguments with their defaults,
  as the docstring describes them. What the page does not name, or names twice, is a warning.
- `<!-- commands -->` becomes the help of all commands, `<!-- tree of errors -->` that tree.
- A public name that no page documents is a warning.
"""

import inspect
import re
from collections import Counter

import typer.cli
import typer.main
from sphinx.util import logging

import dfgen
import dfgen.errors
import dfgen.explore
import dfgen.migrate
from dfgen.cli import app as commands

ARGUMENTS = re.compile(r"<!-- arguments: dfgen\.(\w+) \| ([\w\s]+) -->")
LOG = logging.getLogger(__name__)


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
    for name in found[2].split():
        default = parameters[name].default
        shown = "" if name == "manifest" else f" = {default!r}"
        lines += [f"[`{name}{shown}`]{{#{name}}}", f": {texts[name]}", ""]
    return "\n".join(lines)


def complete(docname, text):
    """Warn of arguments that a page leaves out or has twice."""
    pages = {}
    for name, arguments in ARGUMENTS.findall(text):
        pages.setdefault(name, Counter()).update(arguments.split())
    for name, shown in pages.items():
        known = Counter(described(name).keys())
        if wrong := ", ".join((known - shown) + (shown - known)):
            text = "arguments of dfgen.%s that stand in no group, in two, or are none: %s"
            LOG.warning(text, name, wrong, location=docname)


def help_of_commands():
    """Return the help of every command, as Markdown without a title."""
    command = typer.main.get_command(commands)
    context = command.context_class(command, info_name="dfgen")
    text = typer.cli.get_docs_for_click(obj=command, ctx=context, name="dfgen")
    return text.split("\n", 1)[1]


def fill_in(app, docname, source):
    """Replace the comments of a page."""
    complete(docname, source[0])
    source[0] = ARGUMENTS.sub(definitions, source[0])
    tree = dfgen.errors.__doc__.split("\n\n")[1]
    source[0] = source[0].replace("<!-- tree of errors -->", f"```text\n{tree}\n```")
    if "<!-- commands -->" in source[0]:
        source[0] = source[0].replace("<!-- commands -->", help_of_commands())


def only_known(app, what, name, found, options, lines):
    """Leave out `**unknown`, and the arguments of Sequence, which its page groups by purpose."""
    left_out = r"^Args:\n.*?(?=^\S)" if name == "dfgen.Sequence" else r"^    \*\*unknown: .*?\n"
    lines[:] = re.sub(left_out, "", "\n".join(lines), flags=re.M | re.S).split("\n")


def without_unknown(app, what, name, found, options, signature, returned):
    """Leave `**unknown` out of a signature: no argument is meant by it."""
    return signature and signature.replace(", **unknown", ""), returned


def all_names(app, env):
    """Warn of public names that no page documents."""
    known = env.domaindata["py"]["objects"]
    for module in (dfgen, dfgen.explore, dfgen.migrate):
        plain = [name for name, value in vars(module).items() if inspect.isroutine(value)]
        for name in getattr(module, "__all__", plain):
            if f"{module.__name__}.{name}" not in known and not name.startswith("_"):
                LOG.warning("%s.%s is on no page of docs/reference", module.__name__, name)


def setup(app):
    """Connect what is above."""
    app.connect("source-read", fill_in)
    app.connect("autodoc-process-docstring", only_known, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", without_unknown)
    app.connect("env-updated", all_names)
    return {"parallel_read_safe": True}
