"""The words of a unit's setting as systemd reads them: quotes, C escapes, `%`, and of a command `$`. Pure.

Owns what of these is honoured: all escapes, `%%`, `$$`, `${NAME}` in a word and `$NAME` as one. Refuses to own settings
(unit_file.py). A specifier is refused by name: the ones that systemd knows are not honoured here, and the others it
refuses itself. tests/unit/emulated_hosts/test_systemd_verify.py asks systemd.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

_ESCAPED = dict(zip("abfnrtvs\\\"';", "\a\b\f\n\r\t\v \\\"';", strict=True))
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<space>\s+)|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'"""
    r"""|(?P<plain>(?:[^\s"'\\]|\\.)+)|(?P<wrong>.)""",
    re.DOTALL,
)


class UnitError(ValueError):
    """A file that systemd would refuse; the message says where."""


def words(setting: str) -> list[str]:
    """Raises UnitError for what systemd refuses too, and for specifiers."""
    found: list[str] = []
    ends = True  # the word before
    for token in _TOKEN.finditer(setting):
        if token.lastgroup == "wrong":
            raise UnitError(f"Unbalanced quoting, or a backslash at the end: {setting}")
        if token.lastgroup != "space":
            text = _unescaped(token[token.lastgroup or 0])
            found = [*found, text] if ends else [*found[:-1], found[-1] + text]
        ends = token.lastgroup == "space"
    return list(map(specified, found))


def specified(text: str) -> str:
    """With what `%` stands for."""

    def replaced(match: re.Match[str]) -> str:
        if match[1] != "%":
            raise UnitError(f"specifier {match[0]} is not honoured by this emulated host; %% is a percent sign: {text}")
        return "%"

    return re.sub(r"%([%0-9A-Za-z])", replaced, text)


def expanded(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Of a command, with the values of variables; one that is not set is empty, or as a word of its own no word."""
    result: list[str] = []
    for argument in arguments:
        if re.match(r"\$[^${]", argument):
            result += _split(environment.get(argument[1:], ""))
        else:
            value = re.compile(r"\$(\$)|\$\{([^}]*)\}")
            result.append(value.sub(lambda match: match[1] or environment.get(match[2], ""), argument))
    return result


def _split(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError:  # an odd quote stands for itself
        return value.split()


def _unescaped(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        if number := match[1] or match[2] or match[3]:
            return chr(int(number, 16))
        if match[4]:
            return chr(int(match[4], 8))
        if match[5] not in _ESCAPED:
            raise UnitError(f"Invalid escape sequences in line: {text}")
        return _ESCAPED[match[5]]

    return _ESCAPE.sub(replaced, text)
