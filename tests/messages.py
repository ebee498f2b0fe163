"""What errors say, for tests that compare it."""

import pytest


def message_of(kind, call, /, *args, **kwargs):
    """Return what the error says that a call raises, which must be of a kind."""
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    return str(caught.value)
