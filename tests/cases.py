"""Many small cases in one test, where a test for each would take longer than the cases."""

import inspect
from functools import wraps

import pytest


def each(names, cases):
    """Have a test try each case, as `pytest.mark.parametrize` has; it shows all cases that fail.

    Use it for cases that take milliseconds and leave nothing behind for the next one.
    """
    names = names.replace(",", " ").split() if isinstance(names, str) else names
    cases = [case if len(names) > 1 else (case,) for case in cases]

    def of_test(test):
        @wraps(test)
        def tried(*objects, **given):
            errors = []
            for case in cases:
                named = dict(zip(names, case, strict=True))
                try:
                    test(*objects, **given, **named)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in the case {named}")
                    errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(cases)} cases fail", errors)

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in names]
        tried.__signature__ = signature.replace(parameters=left)
        return tried

    return of_test
