"""Runs a team's stream in a task of its own, so that a team that never comes back holds nobody up."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager
from enum import Enum, auto
from typing import Any

from debugger.recorder.autogen.tools import Here, here
from debugger.recorder.gates import Hold


class Alarm(Enum):
    """Why the stream is not waited for any longer."""

    TIMEOUT = auto()
    CANCELLED = auto()


class Pump:
    """Takes messages off a team as they come and gives them on; `heard` gets each one first.

    A call that is cancelled inside a tool, and a hold, leave the library's own `run()` pending for ever: so
    what ends a team from outside ends the waiting too, after at most `settle_s` seconds, twice.
    """

    def __init__(
        self, heard: Callable[[Any], None], running: AbstractContextManager[None], settle_s: float
    ) -> None:
        self._heard = heard
        self._running = running
        self._settle_s = settle_s
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.error: BaseException | None = None
        """What the team raised, or the hold that stopped it."""
        self.alarm: Alarm | None = None
        self.came_to_rest = True

    async def messages(
        self, stream: AsyncIterator[Any], token: Any, checkpoint: str | None, timeout_s: float | None
    ) -> AsyncGenerator[Any]:
        """Yield what the stream yields, until it ends, fails, is held, is cancelled or runs out of time."""
        loop = asyncio.get_running_loop()

        def ring(alarm: Any) -> None:
            loop.call_soon_threadsafe(self._queue.put_nowait, alarm)

        place = Here(checkpoint, ring)
        token.add_callback(lambda: ring(Alarm.CANCELLED))
        timer = (
            None if timeout_s is None else loop.call_later(timeout_s, self._queue.put_nowait, Alarm.TIMEOUT)
        )
        self._task = asyncio.create_task(self._run(stream, place), name="branchgate-autogen")
        try:
            while (item := await self._queue.get()) is not self:
                if isinstance(item, Alarm):
                    self.alarm = item
                    break
                if isinstance(item, Hold):
                    self.error = item
                    break
                yield item
        finally:
            if timer is not None:
                timer.cancel()
            if self.alarm is None and token.is_cancelled() and isinstance(self.error, asyncio.CancelledError):
                self.alarm = Alarm.CANCELLED  # the library was quicker to say so
            await self._settle(token)

    async def _run(self, stream: AsyncIterator[Any], place: Here) -> None:
        here.set(place)  # this task's own context, which the team's tasks inherit
        try:
            with self._running:
                async for item in stream:
                    self._heard(item)
                    self._queue.put_nowait(item)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - every end is recorded; the caller gets it
            self.error = self.error or error
        finally:
            self._queue.put_nowait(self)

    async def _settle(self, token: Any) -> None:
        """Let the team come to rest; one that does not is cancelled, and not to be used again."""
        if self._task is None or self._task.done():
            return
        token.cancel()
        await asyncio.wait({self._task}, timeout=self._settle_s)
        if self._task.done():
            return
        self.came_to_rest = False
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=self._settle_s)
