"""Values of Arrow's columns that Python has no type for: times with nanoseconds, or after the year 9999."""

from contextlib import suppress
from typing import Any


class Precise(str):
    """A value that only Arrow has (a time in nanoseconds): as text, and as it was for a file that can hold it."""

    scalar: Any


def python_values(column: Any) -> list[Any]:
    """The values of a column in Python; raises if one cannot be read, or is a time after the year 9999."""
    return [python_value(scalar) for scalar in column] if _has_nanoseconds(column.type) else list(column.to_pylist())


def python_value(scalar: Any) -> Any:
    """A value in Python, with the times in it that Python has no words for as Arrow has them."""
    import pyarrow as pa

    if not scalar.is_valid:
        return None
    kind, inner = scalar.type, getattr(scalar, "value", None)
    is_time = pa.types.is_temporal(kind)
    # Python's times have no nanoseconds, and end with the year 9999; a zone that is not known here is a LookupError.
    with suppress(ValueError, OverflowError, LookupError):
        if not _has_nanoseconds(kind):
            return scalar.as_py()
        if is_time:
            return scalar.cast(_in_microseconds(kind)).as_py()
    if isinstance(inner, pa.Scalar):  # of a dictionary, or of runs
        return python_value(inner)
    if pa.types.is_struct(kind) and len(set(scalar)) == kind.num_fields:  # no dict has a name twice
        return {name: python_value(scalar[name]) for name in scalar}
    if pa.types.is_map(kind):
        return [(python_value(pair[0]), python_value(pair[1])) for pair in scalar.values]
    if hasattr(kind, "value_field"):  # a list of any sort
        return [python_value(item) for item in scalar.values]
    if not is_time:
        return scalar.as_py()  # which raises once more
    value = Precise(_text(scalar))
    value.scalar = scalar
    return value


def _has_nanoseconds(kind: Any) -> bool:
    """Whether there are nanoseconds in a type: for these Arrow asks pandas, where it is installed, which drops some."""
    return "[ns" in str(kind)


def _in_microseconds(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")


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
