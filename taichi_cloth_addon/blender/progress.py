# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a bake is, in numbers and in words."""

from dataclasses import dataclass, field


@dataclass
class Progress:
    """What the panel shows while it bakes.

    Attributes:
        phase: what the worker does.
        waiting: what it waits for the user to do, or nothing.
        frame: the last one done.
        done: frames done.
        total: frames asked for.
        seconds_per_frame: of the frames done lately.
        seconds_left: as many times that as there are frames left; None while unknown.
        device: that it runs on, in words.
        messages: what it had to say.
    """

    phase: str = "starting"
    waiting: str = ""
    frame: int | None = None
    done: int = 0
    total: int = 1
    seconds_per_frame: float = 0.0
    seconds_left: float | None = None
    device: str = ""
    messages: list[str] = field(default_factory=list)

    @property
    def factor(self) -> float:
        """Share that is done."""
        return self.done / max(self.total, 1)

    def text(self) -> str:
        """One line: the phase, or the frame."""
        if self.waiting:
            return f"Waiting until {self.waiting}…"
        if self.phase == "compiling":
            return "Compiling (First Time Only)"
        if self.frame is None:
            return f"{self.phase[:1].upper()}{self.phase[1:]}…"
        return self._counted()

    def _counted(self) -> str:
        return f"Frame {self.frame}  ({self.done} of {self.total})"

    def timing(self) -> str:
        """Seconds per frame and the time left; how far it is while it waits."""
        if self.waiting:
            return "" if self.frame is None else self._counted()
        if self.seconds_left is None:  # The first frame's time is that of the compiler.
            return ""
        return f"{self.seconds_per_frame:.2g} s per frame, {duration(self.seconds_left)} left"


def number(count: int) -> str:
    """A number as people write it, its thousands apart."""
    return f"{count:,}".replace(",", "\N{NO-BREAK SPACE}")


def duration(seconds: float) -> str:
    """A time as people say it."""
    whole = max(round(seconds), 0)
    if whole < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004 - minutes of an hour
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
