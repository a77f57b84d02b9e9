"""The loss curve as terminal text, by plotext. Alone here because plotext ships no types."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

import plotext

from infra.operate.stack_status import Losses

_HEIGHT = 15
_MAX_WIDTH = 100


def draw(losses: Losses, width: int) -> str:
    """Training loss over steps as a line, held-out losses as marks; `width` in columns."""
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(min(width, _MAX_WIDTH), _HEIGHT)
    steps, values = zip(*losses.train, strict=True)
    plotext.plot(steps, values, label="training loss, nats per token")
    if losses.heldout:
        steps, values = zip(*losses.heldout, strict=True)
        plotext.scatter(steps, values, label="held-out", marker="o")
    plotext.xlabel("step")
    return str(plotext.build())  # pyright: ignore[reportUnknownArgumentType]
