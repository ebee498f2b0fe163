"""The command line, within this process."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from subprocess import CompletedProcess

import pytest

from dfgen.cli import app


def run(*arguments):
    """Run the command as a process would, and return what that would."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        app([*map(str, arguments)], prog_name="dfgen")
    return CompletedProcess(arguments, ended.value.code, out.getvalue(), err.getvalue())
