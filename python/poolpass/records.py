"""Classes that consist of fields. Those of the module dataclasses take much longer to import and to create."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**options: Any) -> Any:
        return lambda each: each


class _Fields:
    """The annotations of a class are its fields, and their values are the defaults."""

    def __init__(self, *positional: Any, **named: Any):
        fields = type(self).__annotations__
        values = {**dict(zip(fields, positional)), **named}
        if len(values) < len(positional) + len(named) or not values.keys() <= fields.keys():
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(fields)}")
        for name in fields:
            vars(self)[name] = values[name] if name in values else getattr(type(self), name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


@dataclass_transform(eq_default=False)
class Record(_Fields):
    """An object with fields that may change."""


@dataclass_transform(frozen_default=True)
class Value(_Fields):
    """An object with fields that do not change. Values of the same class are equal if their fields are."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Cannot change {name} of {type(self).__name__}")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))
