"""What data is not to import or construct; it tells when it is."""

from __future__ import annotations

from acceptance_effects import logged

with logged("canary", how="imported"):
    pass


class Canary:
    """What data is not to construct."""

    def __init__(self, **_: object) -> None:
        """Tell."""
        with logged("canary", how="constructed"):
            pass
