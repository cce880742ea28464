"""Values of Arrow's columns that Python has no type for: times with nanoseconds, or after the year 9999."""

from typing import Any


class Precise(str):
    """A value that only Arrow has (a time in nanoseconds): as text, and as it was for a file that can hold it."""

    scalar: Any


def python_value(scalar: Any) -> Any:
    """A value in Python, with the times in it that Python has no words for as Arrow has them."""
    import pyarrow as pa

    try:
        return scalar.as_py()
    except (ValueError, OverflowError):  # Python's times have no nanoseconds, and end with the year 9999
        kind, inner = scalar.type, getattr(scalar, "value", None)
        if isinstance(inner, pa.Scalar):  # of a dictionary, or of runs
            return python_value(inner)
        if pa.types.is_struct(kind) and len(set(scalar)) == kind.num_fields:  # no dict has a name twice
            return {name: python_value(scalar[name]) for name in scalar}
        if pa.types.is_map(kind):
            return [(python_value(pair[0]), python_value(pair[1])) for pair in scalar.values]
        if hasattr(kind, "value_field"):  # a list of any sort
            return [python_value(item) for item in scalar.values]
        if not pa.types.is_temporal(kind):
            raise
        value = Precise(_text(scalar))
        value.scalar = scalar
        return value


def _text(time: Any) -> str:
    """A time as Arrow writes it."""
    import pyarrow as pa

    if getattr(time.type, "tz", None) is None:
        return str(time.cast("string"))
    # In a zone Arrow writes nonsense for times out of its range, and nothing if it does not know the zone.
    plain = str(time.cast(pa.timestamp(time.type.unit)).cast("string"))
    try:
        return plain if plain.startswith("<") else str(time.cast("string"))
    except pa.ArrowInvalid:
        return f"{plain}Z"
