"""The filter of a list of custom jobs: `state="JOB_STATE_RUNNING" AND labels.run:*`, by the rules of AIP-160.

Fields and their operators are those of ListCustomJobsRequest's own documentation. OR binds closer than AND, terms
side by side are joined by AND. Owns the grammar and what a term means. Raises RpcError for what it does not know.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from infra.emulators.rpc_errors import Code, RpcError
from infra.emulators.vertex_jobs import job_messages
from infra.emulators.vertex_jobs.job_records import Job

Test = Callable[[Job], bool]
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(!=|<=|>=|[=<>:()])|([^\s"=<>:()!]+))')
_COMPARES: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def compiled(text: str) -> Test:
    """What a filter says of a job; an empty one is true of all."""
    tokens = _tokens(text)
    if not tokens:
        return lambda job: True
    parser = _Parser(text, tokens)
    test = parser.conjunction()
    if parser.rest:
        raise parser.refuse(f"unexpected {parser.rest[0]!r}")
    return test


def _tokens(text: str) -> list[str]:
    tokens, at = list[str](), 0
    text = text.rstrip()
    while at < len(text):
        matched = _TOKEN.match(text, at)
        if not matched:
            raise _refusal(text, f"cannot read {text[at:]!r}")
        tokens.append(matched[0].strip())
        at = matched.end()
    return tokens


def _refusal(text: str, why: str) -> RpcError:
    return RpcError(Code.INVALID_ARGUMENT, f'Invalid filter "{text}": {why}.')


@dataclass
class _Parser:
    text: str
    rest: list[str]

    def refuse(self, why: str) -> RpcError:
        return _refusal(self.text, why)

    def conjunction(self) -> Test:
        tests = [self.disjunction()]
        while self.rest and self.rest[0] != ")":
            if self.rest[0] == "AND":
                self.rest.pop(0)
            tests.append(self.disjunction())
        return lambda job: all(test(job) for test in tests)

    def disjunction(self) -> Test:
        tests = [self.term()]
        while self.rest and self.rest[0] == "OR":
            self.rest.pop(0)
            tests.append(self.term())
        return lambda job: any(test(job) for test in tests)

    def term(self) -> Test:
        token = self._take()
        if token in ("NOT", "-"):
            test = self.term()
            return lambda job: not test(job)
        if token == "(":
            test = self.conjunction()
            if self._take() != ")":
                raise self.refuse("a parenthesis is not closed")
            return test
        return self._comparison(token)

    def _comparison(self, name: str) -> Test:
        sign = self._take()
        value = self._take()
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        if name == "create_time" and sign in _COMPARES:
            return self._time(sign, value)
        if name == "display_name" and sign in ("=", "!=", ":"):
            return _named(sign, value)
        if name == "state" and sign in ("=", "!="):
            return lambda job: (job.state == value) == (sign == "=")
        if name.startswith("labels.") and sign in ("=", ":"):
            key = name.removeprefix("labels.").strip('"')
            return lambda job: key in job.message.labels and value in ("*", job.message.labels[key])
        raise self.refuse(f"{name} {sign} is not supported")

    def _time(self, sign: str, value: str) -> Test:
        try:
            seconds = job_messages.seconds_of_text(value)
        except ValueError as error:
            raise self.refuse(f"{value!r} is not a time of RFC 3339") from error
        return lambda job: _COMPARES[sign](job.create_s, seconds)

    def _take(self) -> str:
        if not self.rest:
            raise self.refuse("it ends too early")
        return self.rest.pop(0)


def _named(sign: str, value: str) -> Test:
    if sign == ":":
        pattern = value if "*" in value else f"*{value}*"
        return lambda job: fnmatch.fnmatchcase(job.message.display_name, pattern)
    return lambda job: (job.message.display_name == value) == (sign == "=")
