"""Arrays of numbers, as all layers name them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

NO_WINDOW = int(np.iinfo(np.int64).max)
"""A window that everything fits into."""

LONG_AGO, EVER = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
"""The instants before and after all others."""
