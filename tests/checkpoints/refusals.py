"""What every error of kbert's keeps to."""

import contextlib
import re

import pytest


@contextlib.contextmanager
def refused(error: type[Exception], match: str):
    """Expect an error that says `match` and ends `Received: …`."""
    with pytest.raises(error, match=match) as caught:
        yield caught
    assert re.search(r"Received: \S.*\Z", str(caught.value), re.DOTALL)
