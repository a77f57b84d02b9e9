"""The language of list filters: `state="JOB_STATE_RUNNING" AND labels.run:*`, by the rules of AIP-160.

OR binds closer than AND, terms side by side are joined by AND; Cloud Logging's filters have the same rules. Owns the
grammar, and what terms mean of custom jobs: fields and operators of ListCustomJobsRequest's own documentation. Raises
RpcError for what it does not know.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from infra.emulators.rpc_errors import Code, RpcError
from infra.emulators.vertex_jobs import job_messages
from infra.emulators.vertex_jobs.job_records import EmulatedJob

type Test[Thing] = Callable[[Thing], bool]
type Term[Thing] = Callable[[str, str, str], Test[Thing]]  # of name, operator and value; raises ValueError

_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(!=|<=|>=|[=<>:()])|([^\s"=<>:()!]+))')
COMPARES: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def of_jobs(text: str) -> Test[EmulatedJob]:
    """What a filter says of a job; an empty one is true of all."""
    return compiled(text, _job_term)


def _job_term(name: str, sign: str, value: str) -> Test[EmulatedJob]:
    if name == "create_time" and sign in COMPARES:
        seconds = job_messages.seconds_of_text(value)
        return lambda job: COMPARES[sign](job.create_s, seconds)
    if name == "display_name" and sign in ("=", "!=", ":"):
        return _named(sign, value)
    if name == "state" and sign in ("=", "!="):
        return lambda job: (job.state == value) == (sign == "=")
    if name.startswith("labels.") and sign in ("=", ":"):
        key = name.removeprefix("labels.")
        return lambda job: key in job.message.labels and value in ("*", job.message.labels[key])
    raise ValueError(f"{name} {sign} is not supported")


def _named(sign: str, value: str) -> Test[EmulatedJob]:
    if sign == ":":
        pattern = value if "*" in value else f"*{value}*"
        return lambda job: fnmatch.fnmatchcase(job.message.display_name, pattern)
    return lambda job: (job.message.display_name == value) == (sign == "=")


def compiled[Thing](text: str, term: Term[Thing]) -> Test[Thing]:
    """What a filter says of a thing; an empty one is true of all."""
    tokens = _tokens(text)
    if not tokens:
        return lambda thing: True
    parser = _Parser(text, tokens, term)
    test = parser.conjunction()
    if parser.rest:
        raise _refusal(text, f"unexpected {parser.rest[0]!r}")
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
class _Parser[Thing]:
    text: str
    rest: list[str]
    meaning: Term[Thing]

    def conjunction(self) -> Test[Thing]:
        tests = [self.disjunction()]
        while self.rest and self.rest[0] != ")":
            if self.rest[0] == "AND":
                self.rest.pop(0)
            tests.append(self.disjunction())
        return lambda thing: all(test(thing) for test in tests)

    def disjunction(self) -> Test[Thing]:
        tests = [self.term()]
        while self.rest and self.rest[0] == "OR":
            self.rest.pop(0)
            tests.append(self.term())
        return lambda thing: any(test(thing) for test in tests)

    def term(self) -> Test[Thing]:
        token = self._take()
        if token in ("NOT", "-"):
            test = self.term()
            return lambda thing: not test(thing)
        if token == "(":
            test = self.conjunction()
            if self._take() != ")":
                raise _refusal(self.text, "a parenthesis is not closed")
            return test
        sign, value = self._take(), self._take()
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        try:
            return self.meaning(token, sign, value)
        except ValueError as error:
            raise _refusal(self.text, str(error)) from error

    def _take(self) -> str:
        if not self.rest:
            raise _refusal(self.text, "it ends too early")
        return self.rest.pop(0)
