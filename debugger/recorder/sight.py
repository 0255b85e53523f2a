"""What can be seen of code and of settings: enough to compare two of a kind, or the word that it is not."""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

_DEEPEST: Final = 12
_PLAIN: Final = (str, int, float, bool, bytes, type(None))
_CALLABLE: Final = (FunctionType, MethodType, types.BuiltinFunctionType, functools.partial, type)


class Sight:
    """Describes values one after the other; `is_whole` is false once a part of one could not be seen.

    Seen is: plain values, functions with what they enclose and default to, partials, classes, and settings
    made of those. Not seen: every other object, also one that can be called, and a container that a function
    encloses, because it may hold something else by the time of the call. What a function names in its module
    is looked at only where it is a plain value: the workflow's version speaks for the rest.
    """

    def __init__(
        self, known: Callable[[Any], str | None] = lambda _: None, libraries: tuple[str, ...] = ()
    ) -> None:
        self.is_whole = True
        self._known = known
        self._libraries = libraries
        self._open: list[FunctionType] = []

    def of(self, value: Any) -> Any:
        """Return something to compare, in plain lists and mappings."""
        if type(value) in _PLAIN:
            return ["plain", repr(value)]
        if (name := self._known(value)) is not None:
            return ["known", name]
        if isinstance(value, _CALLABLE):
            return self._callable(value)
        if typing.get_origin(value) is not None:
            return [
                "generic",
                repr(typing.get_origin(value)),
                [self.of(each) for each in typing.get_args(value)],
            ]
        return self._settings(value)

    def unseen(self, value: Any) -> Any:
        """Return the name of a value's class; the value itself could not be looked at."""
        self.is_whole = False
        return ["object", *_named(type(value))]

    def _settings(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return ["enum", *_named(type(value)), value.name]
        if isinstance(value, Mapping):
            return ["mapping", {str(name): self.of(each) for name, each in value.items()}]
        if isinstance(value, (list, tuple)):
            return ["list", [self.of(each) for each in value]]
        if isinstance(value, (set, frozenset)):
            return ["set", sorted(repr(self.of(each)) for each in value)]
        if is_dataclass(value):
            names = [each.name for each in fields(value)]
        elif hasattr(type(value), "model_fields"):  # pydantic's
            names = list(type(value).model_fields)
        else:
            return self.unseen(value)
        return ["fields", self._class(type(value)), [[name, self.of(getattr(value, name))] for name in names]]

    def _callable(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return ["method", self.of(value.__func__), self._held(value.__self__)]
        if isinstance(value, functools.partial):
            named = sorted((name, self._held(each)) for name, each in value.keywords.items())
            return ["partial", self._held(value.func), [self._held(each) for each in value.args], named]
        if isinstance(value, type):
            return self._class(value)
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            return ["builtin", value.__module__, value.__qualname__]
        return self.unseen(value)

    def _function(self, function: FunctionType) -> Any:
        enclosed = cells_of(function)
        if function.__globals__.get("__name__") == "debugger.recorder.wrapping" and "call" in enclosed:
            return self.of(enclosed["call"])  # our own layer around a tool
        if any(function is each for each in self._open):
            return ["again"]
        if len(self._open) >= _DEEPEST:
            return self.unseen(function)
        self._open.append(function)
        try:
            source = _named(function) if self._is_library(function.__module__) else _source(function)
            defaults = [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]
            return [
                "function",
                source,
                _globals_of(function),
                [self._held(each) for each in defaults],
                [[name, self._held(each)] for name, each in enclosed.items()],
            ]
        finally:
            self._open.pop()

    def _class(self, kind: type) -> Any:
        if self._is_library(kind.__module__) or kind.__module__ == "builtins":
            return ["class", *_named(kind)]
        try:
            source = inspect.getsource(kind)
        except (OSError, TypeError, SyntaxError):
            return self.unseen(kind)
        return ["class", *_named(kind), source]

    def _held(self, value: Any) -> Any:
        """Describe what a function holds on to: an object there is not a setting but what it works on."""
        if type(value) in _PLAIN or isinstance(value, _CALLABLE) or self._known(value) is not None:
            return self.of(value)
        if isinstance(value, tuple):
            return ["list", [self._held(each) for each in value]]
        return self.unseen(value)

    def _is_library(self, module: str | None) -> bool:
        return module is not None and module.partition(".")[0] in self._libraries


def cells_of(function: FunctionType) -> dict[str, Any]:
    """Return what a function encloses, by name; a name that has no value yet is left out."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def _named(value: Any) -> list[str]:
    return [str(value.__module__), str(value.__qualname__)]


def _source(function: FunctionType) -> Any:
    # By the code: a function says whose place it takes, and its own lines would not be read.
    if function.__code__.co_filename.startswith("<"):
        return _compiled(function.__code__)  # made while the program runs: many such share one name
    try:
        return inspect.getsource(function.__code__)
    except (OSError, TypeError, SyntaxError):
        return _compiled(function.__code__)


def _compiled(code: CodeType) -> Any:
    constants = [
        _compiled(each)
        if isinstance(each, CodeType)
        else sorted(map(repr, each))
        if isinstance(each, frozenset)
        else repr(each)
        for each in code.co_consts
    ]
    return [code.co_code.hex(), list(code.co_names), constants]


def _globals_of(function: FunctionType) -> dict[str, Any]:
    named = {name for code in _codes(function.__code__) for name in code.co_names}
    seen = {name: function.__globals__[name] for name in sorted(named) if name in function.__globals__}
    return {name: repr(value) for name, value in seen.items() if isinstance(value, _PLAIN)}


def _codes(code: CodeType) -> list[CodeType]:
    inner = [
        each for constant in code.co_consts if isinstance(constant, CodeType) for each in _codes(constant)
    ]
    return [code, *inner]
