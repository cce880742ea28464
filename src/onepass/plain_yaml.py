"""YAML without its surprises, with the line of every key.

`yes`, `no`, `on`, `off`, dates and 1:30 are text, 2e-5 is a number, keys are always text, a key that is there twice is
a fault, and no tag can make objects.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

Place = tuple[str, ...]  # the keys that lead to a value: ("tasks", "politics", "train"); "" for an item of a list

# Not what other readers of YAML take for a truth value.
_PLAIN = re.compile(r"(?!(?:null|true|false|yes|no|on|off|n|y)$)[a-z_./][a-z0-9_./-]*", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass
class Document:
    """What a YAML text holds; with faults, the value is None."""

    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    faults: list[tuple[int | None, str]] = field(default_factory=list)
    """The line, where it is known, and what is wrong there."""


def parse(text: str, at: Place = (), as_written: Callable[[Place], bool] = lambda place: False) -> Document:
    """Reads one YAML document.

    at: where the text stands in a larger document (that of an override on the command line).
    as_written: the places whose values stay text, so that a label 1.50 is not 1.5.
    """
    document = Document()
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is not None:
            _Walk(document, as_written).visit(node, at)
        if node is not None and not document.faults:
            document.value = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        column = f" at column {mark.column + 1}" if mark else ""
        advice = " Indent with spaces, not with tabs." if "'\\t'" in str(error.problem) else ""
        document.faults.append((mark.line + 1 if mark else None, f"not valid YAML: {error.problem}{column}.{advice}"))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        document.faults.append((line, f"not valid YAML: character {error.character:#x} is not allowed."))
    except RecursionError:
        document.faults.append((None, "not valid YAML: nested too deeply."))
    except (ValueError, KeyError) as error:  # a value that is not what its tag says, as in `!!int x`
        document.faults.append((None, f"not valid YAML: {error}."))
    return document


def quoted(text: str) -> str:
    """A text as a YAML scalar that is read back as just that text.

    >>> [quoted(text) for text in ("late goal", "goal", "yes", "1")]
    ['"late goal"', 'goal', '"yes"', '"1"']
    """
    return text if _PLAIN.fullmatch(text) else '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"


@dataclass
class _Walk:
    """Walks the nodes while they still have lines and are not yet values."""

    document: Document
    as_written: Callable[[Place], bool]
    seen: set[int] = field(default_factory=set)

    def visit(self, node: yaml.Node, at: Place) -> None:
        if id(node) in self.seen:  # an alias; a node can even hold itself
            return
        self.seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._visit_keys(node, at)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self.visit(item, (*at, ""))
        else:
            is_unset = node.tag == _tag("null") and at[-1:] != ("",)
            if self.as_written(at) and not is_unset:
                node.tag = _tag("str")
            if _SURROGATE.search(node.value):
                self._fault(node, f"{'.'.join(at)}: {node.value!r} holds half a character (a lone surrogate).")
        if node.tag not in _TAGS:
            self._fault(node, f"{'.'.join(at)}: the YAML tag {node.tag!r} is not possible here.")

    def _visit_keys(self, node: yaml.MappingNode, at: Place) -> None:
        first: dict[str, int] = {}
        for key, value in node.value:
            if key.tag == _tag("merge"):
                self.visit(value, at)
                continue
            if not isinstance(key, yaml.ScalarNode):
                self._fault(key, "a list or a mapping cannot be a key.")
                continue
            key.tag = _tag("str")
            if key.value in first:
                what = f"{'.'.join(at)} has {key.value!r}" if at else f"{key.value!r} is there"
                self._fault(key, f"{what} twice, in line {first[key.value]} and here. Keep one.")
            first.setdefault(key.value, _line(key))
            self.document.lines[*at, key.value] = _line(key)
            self.visit(value, (*at, key.value))

    def _fault(self, node: yaml.Node, what: str) -> None:
        self.document.faults.append((_line(node), what))


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _tag(name: str) -> str:
    return f"tag:yaml.org,2002:{name}"


_TAGS = {_tag(name) for name in ("str", "int", "float", "bool", "null", "map", "seq")}


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the plain values of YAML 1.2 in place of those of 1.1."""


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9_]*)", list("-+0123456789")),
    ("float", r"[-+]?((\d+\.\d*|\.\d+)([eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.inf)|\.nan", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(_tag(_name), re.compile(rf"(?:{_pattern})\Z", re.ASCII), _first)
