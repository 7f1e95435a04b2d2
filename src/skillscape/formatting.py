"""Numbers and times in words."""


def counted(number: int, thing: str) -> str:
    """A number of things: ``1 seed``, ``2 seeds``."""
    return f"{number} {thing}{'s' if number != 1 else ''}"


def duration(seconds: float) -> str:
    """A time: ``24 s``, ``2 min 30 s``, ``2 h 01 min``, ``3.5 days``."""
    if seconds >= 172_800:
        return f"{seconds / 86_400:,.1f} days"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    if minutes:
        return f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"
    return f"{rest} s"
