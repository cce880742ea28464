"""Where what is fetched or computed once is kept between runs."""

import os
from pathlib import Path


def cache_folder(part: str) -> Path:
    """The folder of one sort of it: in ONEPASS_CACHE if it is set, else in the user's cache."""
    base = os.environ.get("ONEPASS_CACHE") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/onepass"
    return Path(base).expanduser() / part
