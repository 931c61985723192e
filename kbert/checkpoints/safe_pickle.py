"""Reads the pickle of a `pytorch_model.bin` without running it.

A pickle is a program: it names any function of any module and has it called.
Here it is read by an interpreter that knows the instructions torch writes and
no others, and to which a function is a name and never an object. So there is
nothing that a file could call, and Python's own unpickler, which recurses and
allocates as the file says, has no part in it.

References:
    https://docs.python.org/3/library/pickletools.html, for the instructions;
    torch/_weights_only_unpickler.py, which does the same inside torch.
"""

import dataclasses
import pickletools
from collections.abc import Callable
from typing import Any

_CONSTANTS: dict[str, Any] = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
}
_LITERALS = frozenset(
    "BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE".split()
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_STARTS = frozenset(["PROTO", "FRAME"])


@dataclasses.dataclass(frozen=True)
class Global:
    """What a pickle takes from a module: its name, and nothing behind it."""

    name: str


class _Stack(list):
    """The interpreter's values, and where its marks stand among them."""

    def __init__(self):
        super().__init__()
        self.marks: list[int] = []

    def take(self, count: int) -> list[Any]:
        """Take the last values off."""
        if count > len(self):
            raise ValueError("it takes more values than it has made")
        taken = self[len(self) - count :]
        del self[len(self) - count :]
        return taken

    def take_to_mark(self) -> list[Any]:
        """Take off everything since the last mark."""
        if not self.marks:
            raise ValueError("it goes back to a mark it has not set")
        return self.take(max(0, len(self) - self.marks.pop()))


def interpret(
    program: bytes,
    find_global: Callable[[str], Global],
    call: Callable[[str, tuple], Any],
    load_persistent: Callable[[Any], Any],
) -> Any:
    """Run a pickle's instructions on plain values.

    Args:
        program: the pickle.
        find_global: gets `module.name` of what the pickle asks for; returns
            a `Global`, or raises.
        call: gets the name of a `Global` and the arguments to call it with,
            which it must check; returns the result.
        load_persistent: gets the key of an object that is stored elsewhere,
            which it must check; returns what stands for it.

    Returns:
        The value: of None, bool, int, float, str, tuple, list, dict with
        string keys, `Global`, and what the functions return. It may be
        nested deeply and contain itself.

    Raises:
        ValueError: if the pickle is damaged or does anything else. The
            message is half a sentence, about "it".
    """
    stack = _Stack()
    memo: dict[int, Any] = {}
    argument: Any  # of the kind that the instruction has
    for opcode, argument, _ in pickletools.genops(program):
        match opcode.name:
            case "STOP":
                return stack.take(1)[0]
            case name if name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            case name if name in _LITERALS:
                stack.append(argument)
            case name if name in _TUPLES:
                stack.append(tuple(stack.take(_TUPLES[name])))
            case name if name in _STARTS:
                pass
            case "MARK":
                stack.marks.append(len(stack))
            case "TUPLE":
                stack.append(tuple(stack.take_to_mark()))
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "APPEND":
                _extend(stack, stack.take(1))
            case "APPENDS":
                _extend(stack, stack.take_to_mark())
            case "SETITEM":
                _update(stack, stack.take(2))
            case "SETITEMS":
                _update(stack, stack.take_to_mark())
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = _top(stack, object)
            case "MEMOIZE":
                memo[len(memo)] = _top(stack, object)
            case "BINGET" | "LONG_BINGET":
                if argument not in memo:
                    raise ValueError("it looks for a value it has not kept")
                stack.append(memo[argument])
            case "GLOBAL":
                # pickletools puts a space between module and name.
                stack.append(find_global(".".join(argument.split(" ", 1))))
            case "STACK_GLOBAL":
                stack.append(find_global(_join(stack.take(2))))
            case "REDUCE":
                stack.append(_call(call, *stack.take(2)))
            case "BUILD":
                # Attributes of a dict (torch keeps `_metadata` so): left out.
                stack.take(1)
                _top(stack, dict)
            case "BINPERSID":
                stack.append(load_persistent(stack.take(1)[0]))
            case name:
                raise ValueError(f"it uses the instruction {name}")
    raise ValueError("it has no end")  # genops says so first


def _top(stack: _Stack, kind: type) -> Any:
    if not stack or not isinstance(stack[-1], kind):
        raise ValueError("it changes a value that is not of the right kind")
    return stack[-1]


def _extend(stack: _Stack, items: list[Any]) -> None:
    _top(stack, list).extend(items)


def _update(stack: _Stack, items: list[Any]) -> None:
    keys, values = items[::2], items[1::2]
    # Only strings: the hash of a deep tuple overflows the C stack.
    if len(keys) != len(values) or any(type(key) is not str for key in keys):
        raise ValueError("it holds a dict whose keys are no strings")
    _top(stack, dict).update(zip(keys, values, strict=True))


def _join(parts: list[Any]) -> str:
    if any(type(part) is not str for part in parts):
        raise ValueError("it asks for a function whose name is no string")
    return ".".join(parts)


def _call(
    call: Callable[[str, tuple], Any], function: Any, arguments: Any
) -> Any:
    if not isinstance(function, Global) or type(arguments) is not tuple:
        raise ValueError("it calls what is no function")
    return call(function.name, arguments)
