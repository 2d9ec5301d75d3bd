"""Commands that people run beside a task (`murmur exec`), and their conversations with them.

A session is bounded in every direction: how many there are on a node, how long one may take, how
much waits in it, and how long nobody may ask for it. A master that dies takes its sessions along,
because nobody asks any more.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from murmuration.runtime.net.wire import (
    BeginSession,
    SessionBegun,
    SessionPart,
    TalkToSession,
)
from murmuration.runtime.node.companion import STDERR, STDOUT, Companion
from murmuration.runtime.node.isolation import Handle, Isolation, StartFailed

#: How many there are on a node, and of one user.
SESSIONS_MAX, OF_USER_MAX = 32, 16
#: A session that nobody asks for is ended after this; one that has a limit, after that.
IDLE_S = 30.0
LIMIT_MAX_S = 86_400.0
#: How long an answer may wait for something to say.
WAIT_MAX_S = 5.0
TOO_LONG = "its time was over"


@dataclass
class ExecSession:
    run: str
    user: str
    companion: Companion
    timers: dict[str, asyncio.TimerHandle]
    reason: str = ""


class ExecSessions:
    """The sessions of one node. `find` is the handle of a run that is running."""

    def __init__(self, isolation: Isolation, find: Callable[[str], Handle | None]) -> None:
        self._isolation, self._find = isolation, find
        self._sessions: dict[str, ExecSession] = {}

    def begin(self, asked: BeginSession) -> SessionBegun:
        """Start a command beside a run; the answer names the session, or says why there is none."""
        run = asked.run
        handle = self._find(run)
        if handle is None:
            return SessionBegun(error=f"{run} does not run here")
        if full := self._make_room(asked.user):
            return SessionBegun(error=full)
        try:
            inside = self._isolation.enter(handle, asked.command, asked.size)
            companion = Companion(inside, self._isolation, asked.takes_input, asked.size)
        except StartFailed as error:
            return SessionBegun(error=str(error))
        name, loop = secrets.token_hex(16), asyncio.get_running_loop()
        limit = loop.call_later(min(asked.limit_s, LIMIT_MAX_S), self._stop, name, TOO_LONG)
        self._sessions[name] = ExecSession(run, asked.user, companion, {"limit": limit})
        self._touch(name)
        return SessionBegun(name)

    def _make_room(self, user: str) -> str:
        """Why a user can have no session more; empty if one can be had. Where there are as many as
        can be, whoever has the most gives the latest of them to who has fewer, by two at least: no
        user can lock another one out."""
        counts = Counter(session.user for session in self._sessions.values())
        if counts[user] >= OF_USER_MAX:
            return f"{OF_USER_MAX} commands of yours run beside tasks here already"
        if len(self._sessions) < SESSIONS_MAX:
            return ""
        greediest, most = counts.most_common(1)[0]
        if most < counts[user] + 2:
            return f"{SESSIONS_MAX} commands run beside tasks here already"
        theirs = [name for name, each in self._sessions.items() if each.user == greediest]
        self._sessions[theirs[-1]].companion.kill()
        self._forget(theirs[-1])
        return ""

    async def talk(self, asked: TalkToSession) -> SessionPart:
        """Give a session input, and fetch what it has written since the last time, as soon as it
        has; the last answer has the code and ends the session."""
        name = asked.session
        session = self._sessions.get(name)
        if session is None or session.run != asked.run:
            return SessionPart(error="there is no such session any more")
        self._touch(name)
        companion = session.companion
        if asked.size is not None:
            companion.resize(asked.size)
        taken = companion.give(asked.data, asked.is_last)
        await companion.wait(min(asked.wait_s, WAIT_MAX_S))
        # Asked first: what is written in between comes with the next answer.
        code = companion.code
        part = SessionPart(
            stdout=companion.take(STDOUT),
            stderr=companion.take(STDERR),
            taken=taken,
            code=code,
            reason=session.reason,
        )
        if code is not None:
            self._forget(name)
        return part

    def _touch(self, name: str) -> None:
        """Somebody has asked for it."""
        timers = self._sessions[name].timers
        if "idle" in timers:
            timers["idle"].cancel()
        loop = asyncio.get_running_loop()
        timers["idle"] = loop.call_later(IDLE_S, self._stop, name, "nobody asked for it")

    def _stop(self, name: str, reason: str) -> None:
        """End a session's command. Whoever still asks is told why; if nobody does it is forgotten
        later."""
        session = self._sessions[name]
        if session.reason:
            self._forget(name)
            return
        session.reason = reason
        session.companion.kill()
        loop = asyncio.get_running_loop()
        session.timers["idle"].cancel()
        session.timers["idle"] = loop.call_later(IDLE_S, self._stop, name, reason)

    def _forget(self, name: str) -> None:
        session = self._sessions.pop(name)
        for timer in session.timers.values():
            timer.cancel()

    def close(self) -> None:
        for name in list(self._sessions):
            self._sessions[name].companion.kill()
            self._forget(name)
