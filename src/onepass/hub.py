"""Encoders and models on the Hugging Face hub, by `OWNER/NAME` or `OWNER/NAME@REVISION`."""

from collections.abc import Sequence
from pathlib import Path


def fetched(name: str, wanted: Sequence[str] = ("*",), unwanted: Sequence[str] = ()) -> Path:
    """The folder of a name in the hub's cache, with what is wanted and not there yet downloaded.

    The hub's errors, its HTTP library's and the system's share no base: callers catch all and tell `reason_of` them.
    """
    import huggingface_hub  # slow to import, and most models are on the disk

    repository, _, revision = name.partition("@")
    found = huggingface_hub.snapshot_download(
        repository, revision=revision or None, allow_patterns=list(wanted), ignore_patterns=list(unwanted)
    )
    return Path(found)


def cached(name: str, file: str) -> Path | None:
    """The folder of a name in the hub's cache, if this file of it is there; nothing is fetched."""
    import huggingface_hub

    repository, _, revision = name.partition("@")
    try:
        found = huggingface_hub.try_to_load_from_cache(repository, file, revision=revision or None)
    except huggingface_hub.errors.HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def reason_of(error: Exception) -> str:
    """Why the hub did not do what was asked, in words; its own first line is often but the number of an HTTP error."""
    if isinstance(error, ImportError):
        return str(error)
    from huggingface_hub import errors

    if isinstance(error, errors.RevisionNotFoundError):
        return "it has no such revision"
    if isinstance(error, errors.GatedRepoError):
        return "its owner has not given you access to it, or you are not logged in (hf auth login)"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "there is none of this name, or it is private and you are not logged in (hf auth login)"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")
