"""The real failures of a gang, and the verdicts that the documented rules allow.

It shares no code with the supervisor. See "Restarts" in docs/, and `giveUpAfter` in the job file.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

EXIT, KILLED, REJECTION, DISRUPTION = "exit", "killed", "rejection", "disruption"
MARGIN = 3.0
"""Tolerance of times in seconds, because clocks are rounded."""


class Fact(NamedTuple):
    """A pod that failed or was lost."""

    kind: str
    code: int = 0
    ran: float = 0.0
    """Seconds for which its container ran."""
    reason: str = ""
    rule: object = "any"
    """The codes after which the gang restarts, as in the plan."""
    is_init: bool = False
    prepares: bool = False
    """True for a role that others wait for. Its Job may replace the pod, and be complete."""
    is_sure: bool = True
    """True if the supervisor must notice the disruption; False if it can be too short."""
    tells: bool = True
    """True if it stops the gang. A silent kubelet, and failures while the gang stops, can only
    explain the failure of another pod."""


class Ledger:
    """The attempts of a gang, and the causes of their ends."""

    def __init__(self, plan):
        self.plan = plan
        self.attempt = 0
        self.is_stopping = False
        self.facts = defaultdict(list)
        self.spent = 0
        """The restarts since the gang last ran for long."""
        self.restarts = self.disruptions = 0
        self.judged = []
        """The numbers of the last attempts that counted."""
        self.excuse = ""
        """Why the gang may restart without a failure, or miss a failure; "" if it may not."""

        self.is_unclear = False
        """True if another client has also changed the Jobs, so that pods were deleted."""

    def add(self, *facts):
        for fact in facts:
            tells = fact.tells and not self.is_stopping
            self.facts[self.attempt].append(fact._replace(tells=tells))

    def forget(self):
        """Record that nothing knows the names of the pods that are already gone."""
        facts = self.facts[self.attempt]
        facts[:] = [fact._replace(is_sure=fact.kind != DISRUPTION) for fact in facts]

    def is_retryable(self, fact):
        """Return True if the restart policy restarts after a failure; None if both are allowed.

        In place, the kubelet may overwrite the exit code with 137.
        """
        rule = fact.rule
        if rule == "any" or fact.kind == REJECTION:
            return True
        if self.plan.in_place and fact.code == 137:
            return None
        if fact.code in (137, 143) or fact.reason == "OOMKilled":
            return True
        if fact.is_init:
            return None
        unsure = None if self.plan.in_place else False
        if isinstance(rule, tuple):
            return fact.code in rule or unsure
        return (fact.code >= 128 or unsure) if rule else None if fact.code >= 128 else unsure

    def verdicts(self, attempt=None):
        """Return the allowed verdicts on an attempt, from `restart`, `disruption` and `end`."""
        facts = self.facts[self.attempt if attempt is None else attempt]
        return self.follows(facts) | self.follows([fact for fact in facts if not fact.prepares])

    def follows(self, facts):
        """Return the allowed verdicts on these facts."""
        telling = [fact for fact in facts if fact.tells]
        disruptions = [fact for fact in facts if fact.kind == DISRUPTION]
        found = set()
        if telling and (disruptions or self.is_unclear):
            found.add("disruption")
            if not self.is_unclear and any(fact.is_sure and fact.tells for fact in disruptions):
                return found
        answers = {self.is_retryable(fact) for fact in telling if fact.kind != DISRUPTION}
        if telling and any(
            self.is_retryable(fact) is not False
            for fact in facts
            if not fact.tells and fact.kind != DISRUPTION
        ):
            answers |= {None}
        if answers & {True, None}:
            found.add("restart")
        if answers and True not in answers:
            found.add("end")
        return found

    def cannot_start(self):
        """Return True if the last failures show that the program cannot start; None if both
        verdicts are allowed."""
        wanted = self.plan.start_failures
        # A rejection is not a failure of the program.
        own = [a for a in self.judged if all(f.kind != REJECTION for f in self.facts[a])]
        any_own = [a for a in self.judged if any(f.kind != REJECTION for f in self.facts[a])]
        common = any(self.codes(attempts[-wanted:], wanted) for attempts in (own, any_own))
        last = self.judged[-wanted:]
        facts = [fact for attempt in last for fact in self.facts[attempt]]
        quick = [f for f in facts if f.ran < self.plan.start_seconds - MARGIN and not f.is_init]
        is_pure = {f.kind for f in facts} <= {EXIT, KILLED} and len({f.code for f in facts}) == 1
        is_row = len(last) == wanted and last[-1] - last[0] == wanted - 1
        if not common:
            return False
        is_known = is_pure and is_row and len(quick) == len(facts) and not self.plan.in_place
        return True if is_known else None

    def codes(self, attempts, wanted):
        """Return the exit codes of quick failures that occur in all of these attempts."""
        found = [
            {f.code for f in self.facts[a] if f.code and f.ran < self.plan.start_seconds + MARGIN}
            for a in attempts
        ]
        return set.intersection(*found) if wanted and len(found) == wanted else set()

    def stop(self):
        """Record that the supervisor stops the gang."""
        self.is_stopping = True

    def start(self, restarts, disruptions, ran, *, again):
        """Record that the supervisor starts the gang again; yield the violated rules.

        Args:
            restarts: the number in the status.
            disruptions: the number in the status.
            ran: the seconds for which all replicas ran in the previous attempt.
            again: True if the status was lost, so that an attempt may be started twice.
        """
        more = (restarts - self.restarts, disruptions - self.disruptions)
        if again and more == (0, 0):
            self.is_stopping = False
            self.facts[self.attempt].clear()
            return
        allowed, attempt = self.verdicts(), self.attempt
        self.attempt, self.is_stopping, self.is_unclear = attempt + 1, False, False
        self.restarts, self.disruptions = restarts, disruptions
        if self.excuse:
            return
        if more not in ((1, 0), (0, 1)):
            yield f"attempt {attempt} counts {more} restarts and disruptions"
        verdict = "restart" if more[0] else "disruption"
        if verdict not in allowed:
            yield f"attempt {attempt} ended with {verdict}, not {allowed or 'nothing'}"
        if ran > self.plan.backoff_reset_seconds + 60:
            self.spent, self.judged = 0, []
        if verdict == "restart":
            self.spent += 1
            self.judged.append(attempt)
            if self.spent > self.plan.backoff_limit and not ran > self.plan.backoff_reset_seconds:
                yield f"{self.spent} restarts count"
            if self.cannot_start():
                yield "restarted a program that cannot start"

    def why_wrong(self, reason, code, ran):
        """Return the reason why this end is not allowed; "" if it is."""
        allowed = self.verdicts()
        codes = {fact.code for fact in self.facts[self.attempt]}
        fits = code in codes or code == 143 or (code == 137 and self.plan.in_place)
        if reason == "BackoffLimitExceeded":
            spent = 0 if ran > self.plan.backoff_reset_seconds + 60 else self.spent
            is_right = "restart" in allowed and spent >= self.plan.backoff_limit
        elif reason == "StartFailed":
            self.judged.append(self.attempt)
            is_right = self.cannot_start() is not False and "restart" in allowed
        elif reason == "RestartRefused":
            is_right = bool(allowed)
        elif reason == "TooManyDisruptions":
            is_right = "disruption" in allowed and 0 < self.plan.disruptions
        else:
            is_right = "end" in allowed
        return "" if is_right and fits else f"{reason} with {code} after {self.facts[self.attempt]}"
